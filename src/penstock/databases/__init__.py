"""Tables of other systems: look at them, and land their rows as Parquet. Never reaches Spark."""
