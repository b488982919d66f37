"""A client of a Spark Connect server that calls the plain functions: a process that a test can kill."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession

import penstock

SCHEMA = "id int, at int, v string"


def work(remote: str, steps: Sequence[Mapping[str, Any]]) -> None:
    """Do the steps, one line of JSON for each."""
    session = SparkSession.builder.remote(remote).getOrCreate()
    for step in steps:
        sys.stdout.write(json.dumps(load(session, step)) + "\n")
        sys.stdout.flush()


def load(session: Any, step: Mapping[str, Any]) -> Any:
    if "show" in step:
        return sorted(session.read.format("delta").load(step["show"]).toArrow().to_pylist(), key=repr)
    frame = session.createDataFrame([tuple(row) for row in step["rows"]], SCHEMA)
    if "refresh" in step:
        return asdict(penstock.full_refresh_with_swap(frame, step["refresh"], keys=["id"]))
    return asdict(
        penstock.incremental_by_timestamp(
            frame, "at", step["into"], keys=step.get("keys"), lookback=step.get("lookback")
        )
    )
