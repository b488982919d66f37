"""Listeners on events: logging, and later metrics and lineage."""
