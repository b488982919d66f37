"""One folder per kind of dataset; `protocol` defines what a kind is, `registry` lists them."""
