"""Delta tables: their logs, their progress manifests, and every write to them."""
