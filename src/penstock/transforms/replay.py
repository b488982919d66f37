"""A batch replayed by Spark: stored and new events as one frame, and the resulting difference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model.changes import Flow
from penstock.transforms.change_events import (
    TRUNCATE,
    Scope,
    collapse,
    drop_uncovered,
    explode_rows,
    fill_silent,
    find_affected,
    find_copies,
    to_deletes,
)
from penstock.transforms.scd1 import replay_scd1
from penstock.transforms.scd2 import replay_scd2


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """What is stored of a target."""

    target: DataFrame
    auxiliary: DataFrame | None
    has_truncates: bool


def replay(flow: Flow, stored: Stored, scope: Scope) -> DataFrame:
    """Union of stored and new events, collapsed, replayed, compared."""
    rows = find_affected(flow, stored.target, scope)
    events = explode_rows(flow, rows)
    events = events.unionByName(scope.new_events.where(F.col("kind") != TRUNCATE), allowMissingColumns=True)
    empty = {"attempt": "bigint", "truncated": "boolean"}
    if stored.auxiliary is not None:
        copies = find_copies(stored.auxiliary, scope)
        events = events.unionByName(copies, allowMissingColumns=True)
    truncates = _truncates(stored, scope)
    if truncates is not None:
        keys = scope.first_of_keys(events)
        events = events.unionByName(to_deletes(keys, truncates), allowMissingColumns=True)
    missing = {name: F.lit(None).cast(type_) for name, type_ in empty.items() if name not in events.columns}
    events = events.withColumns(missing) if missing else events
    events = events.repartition(1) if scope.is_small else events.repartition("key")
    if stored.auxiliary is not None and flow.keeps_history:
        events = drop_uncovered(events)
    collapsed = fill_silent(flow, collapse(flow, events))
    found = replay_scd2(flow, collapsed) if flow.keeps_history else replay_scd1(flow, collapsed)
    return (
        found.unionByName(_new_truncates(flow, stored, scope), allowMissingColumns=True) if scope.is_for_all else found
    )


def _truncates(stored: Stored, scope: Scope) -> DataFrame | None:
    """All truncates, old and new; None when there are none."""
    frames = [scope.new_events] if scope.is_for_all else []
    if stored.has_truncates and stored.auxiliary is not None:
        frames.append(stored.auxiliary)
    found = [frame.where(F.col("kind") == TRUNCATE).select("sequence") for frame in frames]
    return reduce(DataFrame.unionByName, found) if found else None


def _new_truncates(flow: Flow, stored: Stored, scope: Scope) -> DataFrame:
    """Truncates to store; for a target without history only the last one matters."""
    new = scope.new_events.where(F.col("kind") == TRUNCATE).select("sequence").distinct()
    if not flow.keeps_history:
        new = new.agg(F.max("sequence").alias("sequence"))
    if stored.has_truncates and stored.auxiliary is not None:
        old = stored.auxiliary.where(F.col("kind") == TRUNCATE).select("sequence")
        if not flow.keeps_history:
            latest = F.coalesce(F.col("sequence") > F.col("latest"), F.lit(True))
            new = new.crossJoin(old.agg(F.max("sequence").alias("latest"))).where(latest).drop("latest")
        new = new.join(old, "sequence", "left_anti")
    no_key = F.struct(*(F.lit(None).cast(column.type).alias(column.name) for column in flow.key_columns))
    return new.select(
        no_key.alias("key"),
        "sequence",
        F.lit(TRUNCATE).alias("kind"),
        F.lit(False).alias("is_added"),
        F.lit(True).alias("is_remembered"),
        F.lit(False).alias("is_damaged"),
        F.array().cast("array<bigint>").alias("forget"),
    )
