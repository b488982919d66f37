"""A client of a Spark Connect server that applies batches of change events: a process that a test can kill.

Reads a JSON list of steps from stdin, prints what each did as one line of JSON. `"show"` gives the rows of the target.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import penstock
from penstock.kinds.cdc import apply as changes

SCHEMA = "key string, part int, ts int, op string, a int, b string"


def work(remote: str, steps: Sequence[Mapping[str, Any]]) -> None:
    """Do the steps, one line of JSON for each."""
    session = SparkSession.builder.remote(remote).getOrCreate()
    for step in steps:
        done = show(session, step["show"]) if "show" in step else apply(session, step)
        sys.stdout.write(json.dumps(done) + "\n")
        sys.stdout.flush()


def show(session: Any, target: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = session.read.format("delta").load(target).drop("__penstock").toArrow().to_pylist()
    return rows


def apply(session: Any, step: Mapping[str, Any]) -> dict[str, Any]:
    """Apply one batch, with columns as objects, as a notebook on a server does."""
    frame = session.createDataFrame([tuple(row) for row in step["rows"]], SCHEMA)
    changes.COMPACT_AFTER = step.get("compact_after", changes.COMPACT_AFTER)
    changes._MANY = step.get("many", changes._MANY)
    if step.get("more"):
        frame = frame.withColumn("more", F.lit(None).cast("string"))
    columns = ["key", "part", "a", "b", *(["more"] if step.get("more") else [])]
    return penstock.apply_changes(
        session,
        frame,
        step["target"],
        keys=[F.col("key"), F.col("part")],
        sequence_by=F.col("ts"),
        apply_as_deletes=F.col("op") == "delete",
        apply_as_truncates=F.col("op") == "truncate",
        column_list=[F.col(name) for name in columns],
        stored_as_scd_type=step.get("scd_type", 2),
        batch_id=step.get("batch_id"),
    ).to_json()


if __name__ == "__main__":
    work(sys.argv[1], json.loads(sys.stdin.read()))
