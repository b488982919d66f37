"""Which stored change events belong to a set of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.model.changes import Flow
from penstock.transforms.change_events import TRUNCATE
from penstock.transforms.key_match import FILE, ROW, Image, KeySet, all_null, find_matches, leave_out
from penstock.transforms.raw_records import with_places

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def count_gone_events(events: DataFrame, flow: Flow, keys: KeySet) -> DataFrame:
    """How many events of the keys each file has: its address without scheme, and the number."""
    hits = find_matches(with_places(events), _images(flow, keys), keys)
    return hits.groupBy(FILE).agg(F.count(ROW))


def leave_out_events(events: DataFrame, flow: Flow, keys: KeySet) -> DataFrame:
    """The events that do not belong to the keys."""
    return leave_out(events, _images(flow, keys), keys)


def _images(flow: Flow, keys: KeySet) -> list[Image]:
    """An event has a key, and data unless it is a delete. A truncate concerns all keys and stays."""
    in_key = {name.lower(): F.col("key")[name] for name in flow.keys}
    in_data = {column.key: F.col("data")[column.name] for column in flow.columns}
    images = []
    for source in ({**in_data, **in_key}, in_data):
        parts = [_part(source, column.name) for column in keys.key]
        stays = F.col("kind") == TRUNCATE
        needs_data = any(column.name.lower() not in in_key for column in keys.key) or source is in_data
        there = ~stays & ~all_null(parts)
        images.append(Image(tuple(parts), there & F.col("data").isNotNull() if needs_data else there))
    return images


def _part(source: dict[str, Column], name: str) -> Column:
    found = source.get(name.lower())
    return found if found is not None else F.lit(None).cast("string")
