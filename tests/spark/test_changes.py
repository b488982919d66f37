"""AutoCDC on Delta tables: the cases a person can check by hand, and histories by chance against the model."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from penstock.loads import change_batch
from tests.model_based.autocdc_histories import COLUMNS, random_event
from tests.model_based.autocdc_model import Event, Flow, Kind
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


def histories(chance: random.Random, count: int, *, truncates: float, most: int, paired: bool) -> list[list[Event]]:
    """Batches of the events of many keys: each key is a history of its own, late, tied and repeated at will."""
    batches: list[list[Event]] = [[] for _ in range(chance.randint(2, most))]
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
        chance.choice(batches).append(
            Event((), (sequence // 3, str(sequence % 3)) if paired else sequence, Kind.TRUNCATE)
        )
    for batch in batches:
        chance.shuffle(batch)
    return [batch for batch in batches if batch]


RUNS = [
    *((name, "on the driver") for name, flow in FLOWS.items() if not flow.ignores_nulls),
    *((name, "by Spark") for name in FLOWS),
]
IN_EVERY_CHANGE = [
    ("scd2", "on the driver"),
    ("scd2 tracks a", "on the driver"),
    ("scd1", "on the driver"),
    ("scd2 tracks a", "by Spark"),
    ("scd2 ignores nulls in a, tracks b", "by Spark"),
    ("scd1 ignores nulls", "by Spark"),
]


@pytest.mark.parametrize(("name", "how"), IN_EVERY_CHANGE)
def test_histories_by_chance(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str) -> None:
    if how == "by Spark":
        monkeypatch.setattr(change_batch, "can_replay", lambda _: False)
    live(spark, tmp_path, FLOWS[name], random.Random(f"{name} {how}"), truncates=0.2, most=2)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "how"), RUNS)
def test_many_histories_by_chance(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str, seed: int
) -> None:
    if how == "by Spark":
        monkeypatch.setattr(change_batch, "can_replay", lambda _: False)
    chance = random.Random(f"{name} {how} {seed}")
    live(spark, tmp_path, FLOWS[name], chance, truncates=chance.choice((0, 0.2)), count=600)


def live(
    spark: Any, folder: Path, flow: Flow, chance: random.Random, truncates: float, count: int = 60, most: int = 5
) -> None:
    """Apply batch after batch, some twice, and compare after each."""
    target, delivered = str(folder / "db" / "target"), list[Event]()
    for batch in histories(chance, count, truncates=truncates, most=most, paired=chance.random() < 0.3):
        apply(spark, target, flow, batch)
        delivered += batch
        check(spark, target, flow, delivered)
    again = apply(spark, target, flow, chance.sample(delivered, len(delivered) // 2))
    assert again.version is None, "events that were seen before changed something"
    check(spark, target, flow, delivered)
