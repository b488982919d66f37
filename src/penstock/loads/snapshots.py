"""Whole snapshots as changes: what differs from the current rows of the target is what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.errors import BadChangesError
from penstock.loads.change_batch import ChangeBatch
from penstock.model.changes import END_AT, RESERVED, START_AT, FlowSpec
from penstock.model.types import quote_name
from penstock.transforms.change_events import comparable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_IS_GONE = "_is_gone"


def to_snapshot_changes(flow: FlowSpec, snapshot: DataFrame, target: DataFrame | None, at_ms: int) -> ChangeBatch:
    """New and changed rows as upserts, missing keys as deletes, all at the time of the snapshot.

    Rows that are as they were make no event: they would only be remembered as hidden ones.
    """
    _check_keys(flow, snapshot)
    changed = snapshot.withColumn(_IS_GONE, F.lit(False))
    if target is not None:
        current = target.where(F.col(END_AT).isNull()) if END_AT in target.columns else target
        current = current.drop(START_AT, END_AT, RESERVED)
        changed = changed.alias("new").join(current.alias("old"), _is_same(snapshot, current), "left_anti")
        gone = current.join(snapshot, _same_keys(flow, current, snapshot), "left_anti").withColumn(
            _IS_GONE, F.lit(True)
        )
        changed = changed.unionByName(gone, allowMissingColumns=True)
    options = replace(flow.options, except_column_list=(_IS_GONE,))
    return ChangeBatch(
        changed,
        options,
        sequence=F.timestamp_millis(F.lit(at_ms)),
        is_delete=F.col(_IS_GONE),
        is_truncate=F.lit(False),
    )


def _check_keys(flow: FlowSpec, snapshot: DataFrame) -> None:
    keys = [F.col(quote_name(key)) for key in flow.options.keys]
    repeated = snapshot.groupBy(*keys).count().where("count > 1")
    samples = repeated.limit(5).collect()
    if samples:
        raise BadChangesError(
            f"{flow.name}: the snapshot has {repeated.count()} keys more than once; nothing was written",
            tuple(row.asDict() for row in samples),
            hint="a snapshot has one row for each key: check keys=, or keep one row of each",
        )


def _same_keys(flow: FlowSpec, one: DataFrame, other: DataFrame) -> Column:
    condition = F.lit(True)
    for key in flow.options.keys:
        condition &= one[quote_name(key)] == other[quote_name(key)]
    return condition


def _is_same(snapshot: DataFrame, current: DataFrame) -> Column:
    """Whether a row of the snapshot is as the target has it; a column that the target lacks must be NULL."""
    stored = {name.lower(): name for name in current.columns}
    condition = F.lit(True)
    for field in snapshot.schema.fields:
        new = comparable(F.col(f"new.{quote_name(field.name)}"), field.dataType)
        found = stored.get(field.name.lower())
        old = comparable(F.col(f"old.{quote_name(found)}"), field.dataType) if found else None
        condition &= new.eqNullSafe(old) if old is not None else new.isNull()
    return condition
