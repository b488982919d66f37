"""A client of a Spark Connect server that makes the removal of rows physical: a process that a test can kill.

Reads a JSON list of steps from its arguments, and prints what each did as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.lake.leases import TERMS
from penstock.lake.standing import read_standing
from penstock.lake.tables import Lake
from penstock.maintenance.tables.physical import make_physical
from penstock.maintenance.tables.purge import compute_checksum
from penstock.maintenance.tables.values import Caution
from penstock.model.names import DatasetName
from penstock.model.progress import Manifest
from penstock.model.spec import TableLayout
from penstock.storage.local import LocalFiles

NAME = DatasetName("main", "people")
SCHEMA = "id int, email string"
_PROPERTIES = (("delta.enableDeletionVectors", "true"), ("delta.enableChangeDataFeed", "true"))


def email(id_: int) -> str:
    return f"person-{id_:04d}.of.the.long.names@example.org"


def work(remote: str, storage: str, steps: Sequence[Mapping[str, Any]]) -> None:
    """Do the steps, one line of JSON for each."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(remote).getOrCreate()
    lake = Lake(session, LocalFiles(Path(storage)))
    for step in steps:
        try:
            done = _STEPS[step["do"]](lake, step)
        except PenstockError as error:
            done = {"error": error.code, "message": str(error)}
        sys.stdout.write(json.dumps(done) + "\n")
        sys.stdout.flush()


def write(lake: Lake, step: Mapping[str, Any]) -> Any:
    """Add rows, to a new table at first; under a number each."""
    rows = lake.session.createDataFrame([(id_, email(id_)) for id_ in step["ids"]], SCHEMA).coalesce(1)
    exists = lake.state(NAME).exists
    manifest = lake.begin(Manifest(str(NAME), 0, None, kind="toy", payload={"to": max(step["ids"])}), NAME)
    if exists:
        return lake.append(rows, NAME, manifest.number).version
    return lake.replace(rows, NAME, manifest.number, TableLayout(table_properties=_PROPERTIES)).version


def hide(lake: Lake, step: Mapping[str, Any]) -> Any:
    """Remove rows in one commit under a number, without a literal of a key."""
    standing = read_standing(lake.files, NAME)
    assert standing is not None
    begun = lake.begin(Manifest(str(NAME), 0, None, kind="toy", payload=standing.payload), NAME)
    session = lake.session
    session.createDataFrame([(id_,) for id_ in step["ids"]], "id int").createOrReplaceTempView("gone")
    session.conf.set("spark.databricks.delta.write.txnAppId", "penstock")
    session.conf.set("spark.databricks.delta.write.txnVersion", str(begun.number))
    path = lake.files.spark_path(NAME.path)
    session.sql(f"MERGE INTO delta.`{path}` t USING gone s ON t.id = s.id WHEN MATCHED THEN DELETE").collect()
    session.conf.unset("spark.databricks.delta.write.txnAppId")
    session.conf.unset("spark.databricks.delta.write.txnVersion")
    return begun.number


def erase(lake: Lake, step: Mapping[str, Any]) -> Any:
    """Make it physical; what a killed run left is young, and must not be waited for."""
    caution = Caution(settle=step.get("settle", 0), wait=step.get("wait", 0))
    terms = replace(TERMS, exclusive_wait=step.get("lease_wait", 60))
    done = make_physical(lake, NAME, caution=caution, terms=terms)
    return {
        "rows": done.rows,
        "young": done.young,
        "version": done.version,
        "equal": done.checksum_before == done.checksum_after,
    }


def show(lake: Lake, step: Mapping[str, Any]) -> Any:
    """The rows, the checksum and the progress."""
    del step
    state, standing = lake.state(NAME), read_standing(lake.files, NAME)
    return {
        "ids": sorted(row["id"] for row in lake.read(NAME).select("id").collect()),
        "checksum": str(compute_checksum(lake, NAME)),
        "damage": state.damage.code if state.damage else None,
        "payload": dict(standing.payload) if standing else None,
        "data": [state.data_version, state.data_at],
    }


_STEPS = {"write": write, "hide": hide, "erase": erase, "show": show}

if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
