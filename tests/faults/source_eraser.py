"""A client of a Spark Connect server that erases keys from the sources of a project: a process that a test can kill."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.engine import open_engine
from penstock.lake.tables import Lake
from penstock.maintenance.sources.erasing import erase_sources
from penstock.model.keys import KeyColumn


def erase(remote: str, root: str, tables: Sequence[str], column: str, texts: Sequence[str]) -> None:
    """Erase the keys from one table after the other, one line of JSON for each."""
    session = SparkSession.builder.remote(remote).getOrCreate()
    engine = open_engine(Path(root), environment={})
    lake = Lake(session, engine.workspace.storage)
    for table in tables:
        catalog = engine.catalog
        done = erase_sources(lake, catalog, catalog.find(table), [KeyColumn(column)], texts)
        sys.stdout.write(json.dumps([asdict(each) for each in done]) + "\n")
        sys.stdout.flush()
