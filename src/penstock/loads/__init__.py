"""Load strategies: transforms and the lake put together. A strategy does not know the others."""
