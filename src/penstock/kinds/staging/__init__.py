"""Raw files into staging tables."""
