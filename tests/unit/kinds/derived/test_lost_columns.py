"""A column counts as lost only where the plan knows all columns that a reader will find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import make_item, make_spec, to_name
from penstock.errors import Location
from penstock.kinds.derived.lost_columns import find_lost_column
from penstock.kinds.derived.values import resolve_views
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Effect, Upstream
from penstock.model.progress import Progress, TableState
from penstock.model.schema import Column, Schema
from penstock.model.schema_diff import ColumnChange
from penstock.model.spec import NeededColumn

ORDERS, OTHER = to_name("staging.orders"), to_name("other")
SCHEMA = Schema((Column("id", "int"), Column("client", "string", sources=frozenset({"client", "customer"}))))
KNOWN = Upstream(ORDERS, TableState(version=1, progress=Progress(1, (1,), None, SCHEMA)))
HERE = Location("a.sql", 1, 8)


def planned(schema: Schema | None, changes: tuple[ColumnChange, ...] | None) -> Upstream:
    item = make_item("staging.orders", action=Action.EVOLVE)
    return replace(KNOWN, items=(replace(item, effect=Effect(True, schema=schema, column_changes=changes)),))


def code(need: NeededColumn, orders: Upstream = KNOWN) -> str | None:
    resolved = resolve_views(make_spec("a", "staging.orders other", needs=(need,)), {})
    found = find_lost_column(resolved, {ORDERS: orders, OTHER: Upstream(OTHER, TableState(version=1))})
    return found.code if found is not None else None


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        (KNOWN, "column_unknown"),
        (planned(SCHEMA, ()), "column_unknown"),
        (planned(Schema((Column("Note", "string"),)), ()), None),
        (planned(None, ()), None),
        (planned(SCHEMA, None), None),  # a load that asks its source only when it runs
        (Upstream(ORDERS, TableState(version=1)), None),
    ],
)
def test_the_columns_that_count_are_those_after_the_planned_work(upstream: Upstream, expected: str | None) -> None:
    assert code(NeededColumn(((ORDERS, "note"),), HERE), upstream) == expected


@pytest.mark.parametrize(
    ("reads", "others", "is_open", "expected"),
    [
        ([(ORDERS, "note"), (OTHER, "note")], [], False, None),  # the other table may have it
        ([(ORDERS, "note")], [(OTHER, "o")], False, None),  # o.note may be a field there
        ([(ORDERS, "note")], [(ORDERS, "id")], False, None),
        ([(ORDERS, "note")], [(ORDERS, "o")], False, "column_unknown"),
        ([(ORDERS, "note")], [(ORDERS, "o")], True, None),
        ([(ORDERS, "customer")], [(OTHER, "o")], True, "column_gone"),  # it was a column of that table
        ([(ORDERS, "customer")], [(ORDERS, "id")], False, None),
    ],
)
def test_whatever_else_a_name_may_mean_counts(
    reads: list[tuple[DatasetName, str]], others: list[tuple[DatasetName, str]], is_open: bool, expected: str | None
) -> None:
    assert code(NeededColumn(tuple(reads), HERE, tuple(others), is_open)) == expected


def test_the_hint_names_columns_that_no_command_could_list_before_the_first_run() -> None:
    wide = Schema(tuple(Column(f"c{index}", "string") for index in range(20)))
    need = NeededColumn(((ORDERS, "note"),), HERE)
    resolved = resolve_views(make_spec("a", "staging.orders", needs=(need,)), {})
    found = find_lost_column(resolved, {ORDERS: planned(wide, ())})
    assert found is not None
    assert found.hint == "staging.orders has c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, ..."
