"""Loads for people who have functions and DataFrames, and no project: Spark or pandas frames into a Delta table.

The same guarantees as loads of a project: one commit with its progress, verified before it is made, and safe to repeat. This room
must not know projects and pipelines. Its functions are offered as `penstock.full_refresh_with_swap`,
`penstock.incremental_by_timestamp` and `penstock.process_cdc_events`.
"""
