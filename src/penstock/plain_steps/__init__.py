"""Work for people who have functions and not tables: `penstock.Pipeline` and `penstock.backfill_date_range`.

Functions run on the scheduler of pipeline runs and are recorded in an event log in the same way. This room must not know
projects, tables or Spark.
"""
