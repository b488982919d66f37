"""Events of the plain-Python model as frames, and targets as sets of the model's rows: so that Spark and model compare."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import penstock
from penstock.model.changes import ChangeMetrics
from tests.model_based.autocdc_histories import ORACLE, check_rows
from tests.model_based.autocdc_model import Event, Flow, Kind, Scd1Row, Scd2Row
from tests.spark.tables import read_table

SCHEMA = "key string, part int, ts int, op string, a int, b string"


def to_frame(spark: Any, events: Sequence[Event]) -> Any:
    """Events with one or two key values as rows of a source; sequences are numbers or pairs."""
    return spark.createDataFrame([to_row(event) for event in events], SCHEMA_OF[is_paired(events)])


SCHEMA_OF = {
    False: "key string, part int, ts int, op string, a int, b string",
    True: "key string, part int, ts struct<major: int, minor: string>, op string, a int, b string",
}


def is_paired(events: Iterable[Event]) -> bool:
    return any(isinstance(event.sequence, tuple) for event in events)


def to_row(event: Event) -> tuple[Any, ...]:
    key, part = (*event.key, 0, 0)[:2] if event.key else (None, None)
    a, b = (*event.values, None, None)[:2]
    return key, part, event.sequence, event.kind.value, a, b


def apply(spark: Any, target: str, flow: Flow, events: Sequence[Event], **more: Any) -> ChangeMetrics:
    """Apply events as a user does."""
    tracking = (
        {"track_history_column_list": [c for c in flow.columns if c in flow.tracked]} if flow.scd_type == 2 else {}
    )
    nulls: dict[str, Any] = {}
    if flow.ignores_nulls:
        nulls = {"ignore_null_updates": True, "ignore_null_updates_column_list": sorted(flow.ignore_null)}
    return penstock.apply_changes(
        spark,
        more.pop("frame", None) or to_frame(spark, events),
        target,
        keys=["key", "part"],
        sequence_by="ts",
        apply_as_deletes="op = 'delete'",
        apply_as_truncates="op = 'truncate'",
        column_list=["key", "part", *flow.columns],
        stored_as_scd_type=flow.scd_type,
        **tracking,
        **nulls,
        **more,
    )


def shown(spark: Any, target: str, flow: Flow) -> frozenset[Any]:
    """The rows of the target, as the model has them."""
    made = [to_model(flow, row) for row in read_table(spark, target).to_pylist()]
    assert len(made) == len(set(made)), "two stored rows that look the same"
    return frozenset(made)


def to_model(flow: Flow, row: dict[str, Any]) -> Any:
    key = (row["key"], row["part"])
    values = tuple(row[column] for column in flow.columns)
    if flow.scd_type == 1:
        return Scd1Row(key, values)
    return Scd2Row(key, values, _sequence(row["__START_AT"]), _sequence(row["__END_AT"]))


def _sequence(value: Any) -> Any:
    return tuple(value.values()) if isinstance(value, dict) else value


def with_whole_keys(events: Iterable[Event]) -> list[Event]:
    """Events whose keys have both parts, as the frames have them."""
    return [
        event if event.kind is Kind.TRUNCATE else Event((*event.key, 0)[:2], event.sequence, event.kind, event.values)
        for event in events
    ]


def check(spark: Any, target: str, flow: Flow, events: Iterable[Event]) -> None:
    """The target shows what the oracle says, and its rows do not overlap."""
    expected = ORACLE[flow.scd_type](flow, with_whole_keys(events))
    found = shown(spark, target, flow)
    assert found == expected, f"too many: {set(found - expected)}, missing: {set(expected - found)}"
    if flow.scd_type == 2:
        check_rows(found)


def shuffle(chance: random.Random, items: Sequence[Any]) -> list[Any]:
    return chance.sample(items, len(items))
