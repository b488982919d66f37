"""One folder per kind of dataset."""
