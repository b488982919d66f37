"""SQL and Python definitions into tables."""
