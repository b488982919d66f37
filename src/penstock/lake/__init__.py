"""The only door to Spark, Delta tables, raw files and progress."""
