"""Decisions: pure functions from values to values. No I/O, no Spark, no clock."""
