"""Loads from tables of other systems: full refresh, timestamp, snapshot."""
