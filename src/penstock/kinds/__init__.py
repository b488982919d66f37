"""One folder per kind of dataset; `protocol` says what a kind is, `registry` which there are."""
