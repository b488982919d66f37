"""The cases of AutoCDC that a person can check by hand, for SCD2 and SCD1: the oracle, and small steps in every order."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.model_based.autocdc_histories import ORACLE, World
from tests.model_based.autocdc_model import Event, Flow, Scd1Row, Scd2Row, delete, truncate, upsert

ONE = Flow(("a",), frozenset({"a"}))
TWO = Flow(("a", "b"), frozenset({"a"}))
"""Only a is tracked."""
NOTHING_TRACKED = replace(TWO, tracked=frozenset())
KEEP = Flow(("a", "b"), frozenset({"a", "b"}), ignore_null=frozenset({"a", "b"}))
KEEP_B = replace(KEEP, ignore_null=frozenset({"b"}))


@dataclass(frozen=True)
class Case:
    """Events of the key k as they arrive, one batch each; the rows as (start, end, *values), and the SCD1 row or None."""

    name: str
    events: tuple[Event, ...]
    scd2: tuple[tuple[Any, ...], ...]
    scd1: tuple[Any, ...] | None
    flow: Flow = ONE

    def expected(self, scd_type: int) -> frozenset[Any]:
        if scd_type == 1:
            return frozenset() if self.scd1 is None else frozenset({Scd1Row(("k",), self.scd1)})
        return frozenset(Scd2Row(("k",), tuple(values), start, end) for start, end, *values in self.scd2)


def u(sequence: Any, *values: Any) -> Event:
    return upsert("k", sequence, *values)


def d(sequence: Any) -> Event:
    return delete("k", sequence)


t = truncate

CASES = (
    Case("in order", (u(1, "A"), u(2, "B")), ((1, 2, "A"), (2, None, "B")), ("B",)),
    Case("no-op", (u(1, "A"), u(2, "A")), ((1, None, "A"),), ("A",)),
    Case("delete", (u(1, "A"), d(2)), ((1, 2, "A"),), None),
    Case("delete of a key not seen", (d(2),), (), None),
    Case("early delete", (d(2), u(1, "A")), ((1, 2, "A"),), None),
    Case("upsert after an early delete", (d(2), u(3, "A")), ((3, None, "A"),), ("A",)),
    Case("late upsert before", (u(5, "B"), u(2, "A")), ((2, 5, "A"), (5, None, "B")), ("B",)),
    Case("late upsert before, equal", (u(5, "A"), u(2, "A")), ((2, None, "A"),), ("A",)),
    Case(
        "late upsert inside a row",
        (u(1, "A"), u(5, "C"), u(3, "B")),
        ((1, 3, "A"), (3, 5, "B"), (5, None, "C")),
        ("C",),
    ),
    Case(
        "late upsert splits a run",
        (u(1, "A"), u(5, "A"), u(3, "B")),
        ((1, 3, "A"), (3, 5, "B"), (5, None, "A")),
        ("A",),
    ),
    Case("late no-op inside a run", (u(1, "A"), u(5, "A"), u(3, "A")), ((1, None, "A"),), ("A",)),
    Case("late upsert before a delete", (u(1, "A"), d(5), u(3, "B")), ((1, 3, "A"), (3, 5, "B")), None),
    Case(
        "late upsert after a delete",
        (u(1, "A"), d(3), u(7, "C"), u(5, "B")),
        ((1, 3, "A"), (5, 7, "B"), (7, None, "C")),
        ("C",),
    ),
    Case("late upsert between two deletes", (u(1, "A"), d(3), d(5), u(4, "B")), ((1, 3, "A"), (4, 5, "B")), None),
    Case("late delete inside a run", (u(1, "A"), u(5, "A"), d(3)), ((1, 3, "A"), (5, None, "A")), ("A",)),
    Case("late delete between rows", (u(1, "A"), u(5, "B"), d(3)), ((1, 3, "A"), (5, None, "B")), ("B",)),
    Case("late delete before", (u(5, "A"), d(3)), ((5, None, "A"),), ("A",)),
    Case("earlier of two deletes is late", (u(1, "A"), d(5), d(3)), ((1, 3, "A"),), None),
    Case("re-upsert after a delete", (u(1, "A"), d(3), u(5, "A")), ((1, 3, "A"), (5, None, "A")), ("A",)),
    Case(
        "back to an older value", (u(1, "A"), u(2, "B"), u(3, "A")), ((1, 2, "A"), (2, 3, "B"), (3, None, "A")), ("A",)
    ),
    Case("tie: delete beats upsert", (u(3, "A"), d(3)), (), None),
    Case("tie: upsert after its delete", (u(1, "A"), d(3), u(3, "B")), ((1, 3, "A"),), None),
    Case("tie: delete takes a run's first event", (u(1, "A"), u(2, "A"), d(1)), ((2, None, "A"),), ("A",)),
    Case("tie: delete takes a run's last event", (u(1, "A"), u(2, "A"), d(2)), ((1, 2, "A"),), None),
    Case("tie of upserts: the greater wins", (u(1, "B"), u(1, "A")), ((1, None, "B"),), ("B",)),
    Case("tie of upserts: numbers, not text", (u(1, 9), u(1, 10)), ((1, None, 10),), (10,)),
    Case("tie of upserts: NULL is least", (u(1, "A"), u(1, None)), ((1, None, "A"),), ("A",)),
    Case("tie breaks a run", (u(1, "A"), u(3, "A"), u(3, "B")), ((1, 3, "A"), (3, None, "B")), ("B",)),
    Case("tie joins a run", (u(1, "B"), u(3, "A"), u(3, "B")), ((1, None, "B"),), ("B",)),
    Case("tie: column by column", (u(1, "A", "z"), u(1, "B", "a")), ((1, None, "B", "a"),), ("B", "a"), TWO),
    Case("duplicates", (u(1, "A"), u(1, "A"), d(2), d(2), u(3, "A")), ((1, 2, "A"), (3, None, "A")), ("A",)),
    Case("losing upsert again after an absorbed delete", (u(1, "A"), u(3, "B"), d(3), u(3, "B")), ((1, 3, "A"),), None),
    Case("truncate", (u(1, "A"), t(3)), ((1, 3, "A"),), None),
    Case("truncate before its key is seen", (t(3), u(1, "A")), ((1, 3, "A"),), None),
    Case("upsert after a truncate", (t(3), u(5, "A"), u(1, "A")), ((1, 3, "A"), (5, None, "A")), ("A",)),
    Case("late truncate inside a run", (u(1, "A"), u(5, "A"), t(3)), ((1, 3, "A"), (5, None, "A")), ("A",)),
    Case("tie: truncate beats upsert", (u(3, "A"), t(3)), (), None),
    Case("truncate and delete at once", (u(1, "A"), t(3), d(3), u(2, "B")), ((1, 2, "A"), (2, 3, "B")), None),
    Case("two truncates", (t(3), t(5), u(4, "A"), u(1, "A")), ((1, 3, "A"), (4, 5, "A")), None),
    Case("NULL to value is a change", (u(1, None), u(2, "A")), ((1, 2, None), (2, None, "A")), ("A",)),
    Case("NULL equals NULL", (u(1, None), u(2, None)), ((1, None, None),), (None,)),
    Case(
        "sequences that are structs",
        (u((1, "b"), "B"), u((1, "a"), "A")),
        (((1, "a"), (1, "b"), "A"), ((1, "b"), None, "B")),
        ("B",),
    ),
    Case("untracked change", (u(1, "A", "x"), u(2, "A", "y")), ((1, None, "A", "y"),), ("A", "y"), TWO),
    Case(
        "split shows the hidden event's own values",
        (u(1, "A", "x"), u(5, "A", "y"), u(3, "B", "z")),
        ((1, 3, "A", "x"), (3, 5, "B", "z"), (5, None, "A", "y")),
        ("A", "y"),
        TWO,
    ),
    Case("nothing tracked", (u(1, "A", "x"), u(2, "B", "y")), ((1, None, "B", "y"),), ("B", "y"), NOTHING_TRACKED),
    Case("ignored null", (u(1, "A", "x"), u(2, None, "y")), ((1, 2, "A", "x"), (2, None, "A", "y")), ("A", "y"), KEEP),
    Case("ignored null is a no-op", (u(1, "A", "x"), u(2, None, None)), ((1, None, "A", "x"),), ("A", "x"), KEEP),
    Case(
        "ignored null, filled by a late event",
        (u(1, "A", "x"), u(5, None, "y"), u(3, "B", None)),
        ((1, 3, "A", "x"), (3, 5, "B", "x"), (5, None, "B", "y")),
        ("B", "y"),
        KEEP,
    ),
    Case(
        "no value to keep after a delete",
        (u(1, "A", "x"), d(2), u(3, None, "y")),
        ((1, 2, "A", "x"), (3, None, None, "y")),
        (None, "y"),
        KEEP,
    ),
    Case(
        "late upsert beneath a delete fills nothing",
        (u(5, None, "y"), d(3), u(1, "A", "x")),
        ((1, 3, "A", "x"), (5, None, None, "y")),
        (None, "y"),
        KEEP,
    ),
    Case(
        "tie of two halves",
        (u(1, "Z", "z"), u(2, "A", None), u(2, None, "y")),
        ((1, 2, "Z", "z"), (2, None, "A", "y")),
        ("A", "y"),
        KEEP,
    ),
    Case(
        "null counts where it is not ignored",
        (u(1, "A", "x"), u(2, None, None)),
        ((1, 2, "A", "x"), (2, None, None, "x")),
        (None, "x"),
        KEEP_B,
    ),
)


@pytest.mark.parametrize("scd_type", [2, 1])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case, scd_type: int) -> None:
    flow, expected = replace(case.flow, scd_type=scd_type), case.expected(scd_type)
    assert ORACLE[scd_type](flow, case.events) == expected
    for events in itertools.permutations(case.events):
        world = World(flow)
        for event in events:
            world.apply(event)
            world.check()
        assert world.shown() == expected, "one by one"
        world.check_end(events)
    at_once = World(flow)
    at_once.apply(*case.events)
    assert at_once.shown() == expected, "in one batch"
