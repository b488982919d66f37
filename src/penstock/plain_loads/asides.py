"""Rows landed once, beside the table, before anything is written to it: what is checked there is what is committed.

A frame can give other rows each time that it is evaluated: a query of a table that others write, a random number, the clock. So
it is evaluated exactly once, into Parquet files below the table's `_penstock/aside`. They are read back and compared with what
was written, and removed when the load ends. What a killed process leaves is removed by the next load.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from penstock.errors import VerificationError
from penstock.faults import fault_point
from penstock.lake.lease_owners import Owner, is_ended, this_process
from penstock.lake.manifests import FOLDER
from penstock.lake.tables import Lake
from penstock.model.names import DatasetName
from penstock.plain_loads.values import Checksum
from penstock.storage.files import Files
from penstock.transforms.checksums import hash_row, sums_of

ASIDE = f"{FOLDER}/aside"
_ABANDONED = 7 * 24 * 3600
"""Seconds after which rows of a process on another machine count as left behind."""
_HASH = "__penstock_hash"


@dataclass(frozen=True, slots=True)
class Landed:
    """Rows that were landed and read back, with facts about them."""

    rows: DataFrame
    content: Checksum
    facts: tuple[object, ...]


@contextmanager
def land(lake: Lake, name: DatasetName, rows: DataFrame, facts: Sequence[Column] = ()) -> Iterator[Landed]:
    """Evaluate the rows once; `facts` are aggregations over them. They exist until the block ends."""
    folder = f"{name.path}/{ASIDE}"
    remove_abandoned(lake.files, folder)
    place = f"{folder}/{uuid4().hex}"
    mark = {"owner": asdict(this_process(place[-32:])), "at": time.time()}
    lake.files.create(f"{place}.json", json.dumps(mark).encode())
    try:
        fault_point("plain.before_aside", str(name))
        written = _write(rows, lake.files.spark_path(place))
        fault_point("plain.after_aside", str(name))
        landed = _read(lake, place, rows)
        found = landed.withColumn(_HASH, hash_row(landed)).agg(*sums_of(F.col(_HASH)), *facts).collect()[0]
        content = Checksum(int(found[0]), str(found[1]), int(found[2]))
        if written != content:
            raise VerificationError(
                f"{name}: of {written.rows} landed rows {content.rows} were read back, or they differ; nothing was written",
                hint="run again; check the storage if it happens again",
            )
        yield Landed(landed, content, tuple(found[3:]))
    finally:
        _remove(lake.files, place)


def _write(rows: DataFrame, path: str) -> Checksum:
    """Write the rows, and add up their hashes while they pass. Columns get plain names, which every file format takes."""
    seen = Observation()
    hashed = rows.withColumn(_HASH, hash_row(rows))
    observed = hashed.observe(seen, *sums_of(F.col(_HASH))).drop(_HASH)
    observed.toDF(*(f"c{place}" for place in range(len(rows.columns)))).write.parquet(path)
    found = seen.get
    return Checksum(int(found["rows"]), str(found["total"]), int(found["mixed"]))


def _read(lake: Lake, place: str, like: DataFrame) -> DataFrame:
    plain = like.toDF(*(f"c{place}" for place in range(len(like.columns)))).schema
    return lake.session.read.schema(plain).parquet(lake.files.spark_path(place)).toDF(*like.columns)


def remove_abandoned(files: Files, folder: str) -> None:
    """Remove what loads have left that ended without cleaning up."""
    for file in files.names(folder):
        if not file.endswith(".json"):
            continue
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            mark = json.loads(files.read(f"{folder}/{file}"))
            if is_ended(Owner(**mark["owner"])) or time.time() - float(mark["at"]) > _ABANDONED:
                _remove(files, f"{folder}/{file.removesuffix('.json')}")


def _remove(files: Files, place: str) -> None:
    """The rows first, then the mark that says whose they are: so that an interrupted removal is repeated."""
    for file in files.walk(place):
        with suppress(FileNotFoundError):
            files.remove(file.path)
    files.remove_empty_folders(place)
    with suppress(FileNotFoundError):
        files.remove(f"{place}.json")
