"""The residue scan: does any file at these places still hold one of these values? `scanner` is its only door."""
