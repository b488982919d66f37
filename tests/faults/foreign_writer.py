"""A program that knows nothing of leases, and writes to a table while it is compacted."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession


def write(remote: str, table: str, rounds: int) -> None:
    """Append rows and change others by MERGE, again and again; conflicts are tried again, as Delta's users do."""
    session = SparkSession.builder.remote(remote).getOrCreate()
    for number in range(rounds):
        first = 1000 + number * 10
        session.range(first, first + 10).selectExpr("id", "0 AS seen").coalesce(1).write.format("delta").mode(
            "append"
        ).save(table)
        for _ in range(20):
            try:
                session.sql(
                    f"MERGE INTO delta.`{table}` t USING (SELECT explode(array({number}, {first})) AS id) s "
                    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET seen = t.seen + 1"
                )
                break
            except Exception as error:
                if "DELTA_CONCURRENT" not in str(error):
                    raise
        else:
            raise RuntimeError("conflicts did not end")
        Path(table, ".written").write_text(str(number))
    sys.stdout.write("done\n")
