"""AutoCDC on Delta tables: the cases a person can check by hand, and histories by chance against the model."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.kinds.cdc import apply as changes
from penstock.kinds.cdc import batch as change_batch
from penstock.kinds.cdc import difference as change_difference
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
    batches: list[list[Event]] = [[] for _ in range(most)]
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


DRIVER, SPARK = "on the driver", "by Spark"
RUNS = [*((name, DRIVER) for name, flow in FLOWS.items() if not flow.ignores_nulls), *((name, SPARK) for name in FLOWS)]


@dataclass(frozen=True)
class Mix:
    """What histories are made of. Pairs as sequences and truncates are for Spark; a batch without them is replayed here."""

    truncates: float = 0
    paired: bool = False
    most: int = 3


IN_EVERY_CHANGE = [
    ("scd2", DRIVER, Mix()),
    ("scd2 tracks a", DRIVER, Mix()),
    ("scd1", DRIVER, Mix()),
    pytest.param("scd2 tracks a", SPARK, Mix(paired=True), marks=pytest.mark.deep),
    ("scd2", SPARK, Mix(truncates=0.2, most=2)),
    ("scd1 ignores nulls in b", SPARK, Mix()),
]


@pytest.fixture
def replayed_here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events each replay on the driver was of."""
    calls: list[int] = []
    replay_small = change_difference.replay_small

    def replay(flow: Any, found: Any) -> Any:
        calls.append(found.new_events.num_rows)
        return replay_small(flow, found)

    monkeypatch.setattr(change_difference, "replay_small", replay)
    return calls


@pytest.mark.parametrize(("name", "how", "mix"), IN_EVERY_CHANGE)
def test_histories_by_chance(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    replayed_here: list[int],
    name: str,
    how: str,
    mix: Mix,
) -> None:
    if how == SPARK:
        monkeypatch.setattr(change_batch, "can_replay", lambda _: False)
    batches = live(spark, tmp_path, FLOWS[name], random.Random(f"{name} {how}"), mix)
    assert len(replayed_here) == (batches if how == DRIVER else 0)


@pytest.mark.deep
@pytest.mark.parametrize("name", ["scd1", "scd2 ignores nulls in a, tracks b"])
def test_histories_whose_copies_are_merged_by_every_batch(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """With truncates, of which a target without history keeps the last one."""
    monkeypatch.setattr(changes, "LONGEST_LIST", 1)
    live(spark, tmp_path, FLOWS[name], random.Random(name), Mix(truncates=0.3))


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "how"), RUNS)
def test_many_histories_by_chance(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str, seed: int
) -> None:
    if how == SPARK:
        monkeypatch.setattr(change_batch, "can_replay", lambda _: False)
    chance = random.Random(f"{name} {how} {seed}")
    mix = Mix(truncates=(0, 0.2, 0.3)[seed], paired=how == SPARK and seed == 1, most=5)
    live(spark, tmp_path, FLOWS[name], chance, mix, count=600)


def live(spark: Any, folder: Path, flow: Flow, chance: random.Random, mix: Mix, count: int = 60) -> int:
    """Apply batch after batch, then some of the events again, and compare after each; how many batches that were."""
    target, delivered = str(folder / "db" / "target"), list[Event]()
    batches = histories(chance, count, truncates=mix.truncates, most=mix.most, paired=mix.paired)
    for batch in batches:
        apply(spark, target, flow, batch)
        delivered += batch
        check(spark, target, flow, delivered)
    again = apply(spark, target, flow, chance.sample(delivered, len(delivered) // 2))
    assert again.version is None, "events that were seen before changed something"
    check(spark, target, flow, delivered)
    return len(batches) + 1
