"""A client of a Spark Connect server that makes a table, or compacts one: a process beside others."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.errors import ConcurrentRunError
from penstock.lake.leases import Terms
from penstock.lake.tables import Lake
from penstock.maintenance.compaction.folding import fold_table
from penstock.model.compaction import Policy
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles


def make(remote: str, table: str) -> None:
    """A table of 40 rows in four files, with deletion vectors."""
    session = SparkSession.builder.remote(remote).getOrCreate()
    rows = session.range(0, 40).selectExpr("id", "0 AS seen").repartition(4)
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(table)


def fold(remote: str, root: str, database: str, name: str, times: int = 1, exclusive_wait: float = 60.0) -> None:
    """Compact a table; writes the error of a conflict."""
    lake = Lake(SparkSession.builder.remote(remote).getOrCreate(), LocalFiles(Path(root)))
    terms = Terms(exclusive_wait=exclusive_wait)
    for _ in range(times):
        try:
            fold_table(lake, DatasetName(database, name), Policy(), terms=terms)
            sys.stdout.write("folded\n")
        except ConcurrentRunError as error:
            sys.stdout.write(f"{error}\n")
