"""AutoCDC on Delta tables: the cases a person can check by hand, and histories by chance against the model."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.model_based.autocdc_histories import COLUMNS, random_event
from tests.model_based.autocdc_model import Event, Flow, Kind
from tests.model_based.test_autocdc_cases import CASES
from tests.spark.change_tables import apply, check

pytestmark = pytest.mark.spark

FLOWS = {
    "scd2": Flow(COLUMNS, frozenset(COLUMNS)),
    "scd2 tracks a": Flow(COLUMNS, frozenset("a")),
    "scd2 tracks nothing": Flow(COLUMNS, frozenset()),
    "scd2 ignores nulls": Flow(COLUMNS, frozenset(COLUMNS), frozenset(COLUMNS)),
    "scd2 ignores nulls in a, tracks b": Flow(COLUMNS, frozenset("b"), frozenset("a")),
    "scd1": Flow(COLUMNS, frozenset(), scd_type=1),
    "scd1 ignores nulls": Flow(COLUMNS, frozenset(), frozenset(COLUMNS), scd_type=1),
    "scd1 ignores nulls in b": Flow(COLUMNS, frozenset(), frozenset("b"), scd_type=1),
}


def histories(chance: random.Random, count: int, *, truncates: float, paired: bool) -> list[list[Event]]:
    """Batches of the events of many keys: each key is a history of its own, late, tied and repeated at will."""
    batches: list[list[Event]] = [[] for _ in range(chance.choice((2, 3, 5)))]
    for number in range(count):
        key = (f"k{number // 2}", number % 2)
        span = chance.choice((4, 8, 12))
        for _ in range(chance.randint(1, 12)):
            sequence = chance.randrange(span)
            event = random_event(chance, (key,), (sequence // 3, str(sequence % 3)) if paired else sequence, 0)
            for _ in range(chance.choice((1, 1, 1, 2))):
                chance.choice(batches).append(event)
    for _ in range(int(truncates * 10)):
        sequence = chance.randrange(12)
        chance.choice(batches).append(Event((), (sequence // 3, str(sequence % 3)) if paired else sequence, Kind.TRUNCATE))
    for batch in batches:
        chance.shuffle(batch)
    return [batch for batch in batches if batch]


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
@pytest.mark.parametrize("truncates", [0, 0.2], ids=["", "truncates"])
def test_histories_by_chance(spark: Any, tmp_path: Path, flow: Flow, truncates: float) -> None:
    name = f"{flow} {truncates}"
    live(spark, tmp_path, flow, random.Random(name), truncates)


def live(spark: Any, folder: Path, flow: Flow, chance: random.Random, truncates: float) -> None:
    """Apply batch after batch, some twice, and compare after each."""
    target, delivered = str(folder / "db" / "target"), list[Event]()
    for batch in histories(chance, 60, truncates=truncates, paired=chance.random() < 0.3):
        apply(spark, target, flow, batch)
        delivered += batch
        check(spark, target, flow, delivered)
    again = apply(spark, target, flow, chance.sample(delivered, len(delivered) // 2))
    assert again.version is None, "events that were seen before changed something"
    check(spark, target, flow, delivered)


@pytest.mark.parametrize("scd_type", [1, 2])
def test_cases(spark: Any, tmp_path: Path, scd_type: int) -> None:
    """Every hand-written case, each as a key of its own, one event a batch; those with truncates as tables of their own."""
    flows = {replace(case.flow, scd_type=scd_type) for case in CASES}
    for number, flow in enumerate(sorted(flows, key=repr)):
        cases = [case for case in CASES if replace(case.flow, scd_type=scd_type) == flow]
        plain = [c for c in cases if all(e.kind is not Kind.TRUNCATE for e in c.events) and isinstance(c.events[0].sequence, int)]
        target, delivered = str(tmp_path / "db" / f"t{number}"), list[Event]()
        for step in range(max((len(case.events) for case in plain), default=0)):
            batch = [
                replace(case.events[step], key=(case.name, 0)) for case in plain if step < len(case.events)
            ]
            apply(spark, target, flow, batch)
            delivered += batch
            check(spark, target, flow, delivered)
