"""SQL and Python definitions become specs."""
