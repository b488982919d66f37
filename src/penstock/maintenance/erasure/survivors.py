"""What the remaining rows share with values that must be gone: a city that somebody else has too proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.lake.tables import Lake
from penstock.maintenance.erasure.clear_values import ClearValues
from penstock.maintenance.scan.needles import BEGINNING, Survivors
from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName
from penstock.transforms.arrow import to_frame
from penstock.transforms.key_hashes import normal_text

_MOST = 10_000
"""Beginnings of remaining values that are looked at for one column."""


def find_survivors(
    lake: Lake,
    values: ClearValues,
    tables: Iterable[DatasetName],
    columns: Mapping[str, Iterable[str]],
    remaining_of: Callable[[DatasetName], DataFrame] | None = None,
) -> Survivors:
    """Which values remaining rows have too, and what their long values begin with.

    Every table is compared with the values of all tables: a person's city in one can be somebody's city in another.
    `remaining_of` reads the rows of a table that stay; by default these are all that it shows.
    """
    read = remaining_of or lake.read
    shared: set[str] = set()
    beginnings: set[str] = set()
    wanted = _to_texts(lake, {value for found in values.found.values() for value in found})
    if not wanted:
        return Survivors()
    gone = to_frame(lake.session, pa.table({"gone": pa.array(sorted(wanted), pa.string())}))
    long_ones = sorted({text[:BEGINNING] for text in wanted if len(text) > BEGINNING})
    starts = to_frame(lake.session, pa.table({"start": pa.array(long_ones, pa.string())}))
    for table in tables:
        if not lake.state(table).exists:
            continue
        rows = read(table)
        known = {name.lower(): name for name in rows.columns}
        for column in columns.get(str(table), ()):
            if column.lower() not in known:
                continue
            text = normal_text(rows, KeyColumn(known[column.lower()])).alias("text")
            remaining = rows.select(text).distinct()
            joined = remaining.join(F.broadcast(gone), F.col("text") == F.col("gone"), "left_semi")
            shared |= {value for row in joined.collect() for value in wanted[row["text"]]}
            if long_ones:
                long = remaining.where(F.length("text") > BEGINNING)
                is_begun = F.col("text").startswith(F.col("start"))
                begun = long.join(F.broadcast(starts), is_begun, "left_semi").limit(_MOST)
                beginnings |= {row["text"] for row in begun.collect()}
    return Survivors(frozenset(shared), frozenset(beginnings))


def _to_texts(lake: Lake, values: Iterable[Any]) -> dict[str, set[str]]:
    """Values by their canonical text, each as needles name it: the type of a value's column may be another one elsewhere."""
    by_type: dict[tuple[type, bool], list[Any]] = {}
    for value in values:
        by_type.setdefault((type(value), getattr(value, "tzinfo", None) is None), []).append(value)
    found: dict[str, set[str]] = {}
    for same in by_type.values():
        rows = to_frame(lake.session, pa.table({"n": range(len(same)), "value": pa.array(same)}))
        for row in rows.select("n", normal_text(rows, KeyColumn("value")).alias("text")).collect():
            found.setdefault(row["text"], set()).add(str(same[row["n"]]))
    return found
