"""Erasure of persons: tombstones hide their rows at once, then every copy is removed, and a receipt proves it."""
