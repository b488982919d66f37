"""Change feeds into streaming tables (AutoCDC)."""
