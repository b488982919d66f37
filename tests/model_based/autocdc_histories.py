"""Histories for AutoCDC by chance, and a world that lives through one: writers, crashes, redelivery, merges that race.

Sequences, keys and values come from small ranges, so that ties, late events and splits of runs are the rule.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tests.model_based.autocdc_model import (
    Event,
    Flow,
    Kind,
    Scd1Row,
    Scd2Row,
    delete,
    remembered,
    scd1_rows,
    scd2_rows,
    truncate,
    upsert,
)
from tests.model_based.autocdc_scd1 import reconcile_scd1
from tests.model_based.autocdc_scd2 import reconcile_scd2
from tests.model_based.autocdc_simulation import USUAL, Batch, Habits, Reconcile, Steps, apply_batch
from tests.model_based.autocdc_store import Copy, Store

COLUMNS = ("a", "b")
RECONCILE: dict[int, Reconcile] = {1: reconcile_scd1, 2: reconcile_scd2}
ORACLE = {1: scd1_rows, 2: scd2_rows}


class WrongRowsError(AssertionError):
    """The target does not show what the oracle says; worse than a table that is kept untidily."""


class CrashError(Exception):
    """The process dies here."""


@dataclass(frozen=True)
class History:
    """A flow, and batches in the order in which they are delivered first."""

    flow: Flow
    batches: tuple[Batch, ...]


@dataclass
class World:
    """A store with writers at work, and the batches they were given."""

    flow: Flow
    habits: Habits = USUAL
    store: Store = field(default_factory=Store)
    batches: dict[Any, Batch] = field(default_factory=dict)
    checked: int = 0

    def deliver(self, batch: Batch) -> Steps:
        self.batches[batch.number] = batch
        return apply_batch(self.store, self.flow, batch, RECONCILE[self.flow.scd_type], self.habits)

    def apply(self, *events: Event, batch_id: Any = None) -> None:
        """Apply one batch from beginning to end."""
        finish(self.deliver(Batch(("applied", len(self.batches)), events, batch_id)))

    def shown(self) -> frozenset[Any]:
        return frozenset(row.shown for row in self.store.versions[-1].rows)

    def committed_events(self) -> set[Event]:
        """The events of all batches that the chain of manifests says are in."""
        return {event for number in self.store.find_batches() for event in self.batches[number].events}

    def kept(self) -> set[Copy]:
        """The copies of the segments that count, without those that the next merge drops."""
        names = self.store.read_target().segments
        segments = self.store.read_segments(names)
        assert len(segments) == len(names), "a segment that counts is gone"
        forgotten = {identity for segment in segments for identity in segment.forget}
        return {c for segment in segments for c in segment.copies if c.identity not in forgotten}

    def check(self) -> None:
        """Compare the target with the oracle, if there is a new version: at every moment, not only at the end."""
        if self.checked == len(self.store.versions):
            return
        self.checked = len(self.store.versions)
        shown = self.shown()
        assert len(shown) == len(self.store.versions[-1].rows), "two stored rows that look the same"
        self.check_shown(self.committed_events())
        if self.flow.scd_type == 2:
            check_rows(shown)
        self.check_auxiliary()

    def check_shown(self, events: Iterable[Event]) -> None:
        """The target shows the oracle's rows for these events."""
        shown, expected = self.shown(), ORACLE[self.flow.scd_type](self.flow, events)
        if shown != expected:
            raise WrongRowsError(f"too many: {set(shown - expected)}, missing: {set(expected - shown)}")

    def check_auxiliary(self) -> None:
        """The auxiliary table holds what must be remembered, each event once; and besides only what the next merge drops."""
        kept = [copy.event for copy in self.kept()]
        assert len(kept) == len(set(kept)), "two copies of one event"
        assert set(kept) == remembered(self.flow, self.committed_events())

    def check_end(self, events: Iterable[Event]) -> None:
        """At rest: the oracle's rows, and after a merge one segment at most, with exactly what must be remembered."""
        events = set(events)
        self.check_shown(events)
        self.habits = Habits(longest_list=0, tidy_after=1)
        self.apply(batch_id="last")
        self.check_shown(events)
        assert set(self.store.segments) == set(self.store.read_target().segments)
        kept = [copy.event for segment in self.store.segments.values() for copy in segment.copies]
        assert len(kept) == len(set(kept)), "two copies of one event"
        assert set(kept) == remembered(self.flow, events)
        assert len(self.store.segments) == bool(kept)


def finish(steps: Steps) -> None:
    for _ in steps:
        pass


def check_rows(rows: Iterable[Scd2Row | Scd1Row]) -> None:
    """Rows of a key never overlap, none has zero width, at most one is open."""
    by_key: dict[Any, list[Any]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    for of_key in by_key.values():
        of_key.sort(key=lambda row: row.start)
        for row, following in pairwise(of_key):
            assert row.end is not None, "only the last row may be open"
            assert row.end <= following.start
        assert all(row.end is None or row.start < row.end for row in of_key)


def live_in_turn(history: History, chance: random.Random) -> None:
    """One writer after the other; some die on the way, and batches come twice."""
    world, delivered = World(history.flow, random_habits(chance)), set[Event]()
    for batch in history.batches:
        while die_or_finish(world.deliver(batch), chance, world):
            pass
        delivered |= set(batch.events)
        world.check_shown(delivered)
        if chance.random() < 0.3:
            deliver_again(world, chance)
    world.check_end(delivered)


def die_or_finish(steps: Steps, chance: random.Random, world: World) -> bool:
    """Let the steps happen; True when the process died on the way."""
    for _ in steps:
        world.check()
        if chance.random() < 0.04:
            try:
                steps.throw(CrashError())
            except CrashError:
                return True
    return False


def deliver_again(world: World, chance: random.Random) -> None:
    """Old events again, with their old id or as a new batch without one: no row changes, and nothing is remembered twice.

    A batch with an id that is not the last one is noted, so it makes a commit; all others write nothing at all.
    """
    batch = chance.choice(list(world.batches.values()))
    if chance.random() < 0.5:
        number = ("again", len(world.batches))
        batch = Batch(number, tuple(chance.choices(batch.events, k=len(batch.events))))
    before = world.store.versions[-1].rows, world.kept()
    written = len(world.store.versions), set(world.store.segments)
    is_noted = batch.mark is not None and batch.mark != world.store.read_target().mark
    finish(world.deliver(batch))
    assert (world.store.versions[-1].rows, world.kept()) == before
    if not is_noted:
        assert (len(world.store.versions), set(world.store.segments)) == written


def live_at_once(history: History, chance: random.Random) -> None:
    """Two or three writers take turns step by step; whoever dies is started again with the same batch."""
    world, waiting = World(history.flow, random_habits(chance)), list(history.batches)
    for batch in waiting:
        world.batches[batch.number] = batch
    most = chance.choice((2, 2, 3))
    at_work: list[tuple[Batch, Steps]] = []
    while waiting or at_work:
        if waiting and len(at_work) < most:
            batch = waiting.pop(0)
            at_work.append((batch, world.deliver(batch)))
        worker = chance.choice(at_work)
        if take_steps(worker[1], chance, world):
            at_work.remove(worker)
        elif chance.random() < 0.01:
            worker[1].close()
            at_work.remove(worker)
            waiting.append(worker[0])
    world.check_end(event for batch in history.batches for event in batch.events)


def random_habits(chance: random.Random) -> Habits:
    return Habits(chance.choice((1, 2, 3, 3)), chance.choice((1, 2, 3)))


def take_steps(steps: Steps, chance: random.Random, world: World) -> bool:
    """A few steps of one worker, then it is another's turn; True when it is done."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        if next(steps, None) is None:
            return True
        world.check()
    return False


def random_history(chance: random.Random) -> History:
    """Events in any order, cut into batches, some more than once and in more than one batch."""
    flow = random_flow(chance)
    span = chance.choice((4, 8, 12))
    make_sequence = chance.choice((int, lambda number: (number // 3, str(number % 3))))
    keys = chance.choice((("k",), ("k", "l"), (("k", 1), ("k", 2), ("l", 1))))
    truncates = chance.choice((0, 0, 0.05, 0.2))
    sequences = [make_sequence(chance.randrange(span)) for _ in range(chance.randint(1, 14))]
    events = [random_event(chance, keys, sequence, truncates) for sequence in sequences]
    events += chance.choices(events, k=chance.randint(0, 3))
    if chance.random() < 0.7:
        chance.shuffle(events)
    batches = tuple(cut_batches(chance, events))
    if chance.random() < 0.5:
        batches = tuple(replace(batch, id=batch.number) for batch in batches)
    return History(flow, batches)


def random_flow(chance: random.Random) -> Flow:
    tracked = chance.choice((COLUMNS, COLUMNS, ("a",), ("b",), ()))
    ignored = chance.choice(((), (), (), COLUMNS, ("a",), ("b",)))
    return Flow(COLUMNS, frozenset(tracked), frozenset(ignored), chance.choice((1, 2, 2)))


def random_event(chance: random.Random, keys: tuple[Any, ...], sequence: Any, truncates: float) -> Event:
    if chance.random() < truncates:
        return truncate(sequence)
    if chance.random() < 0.25:
        return delete(chance.choice(keys), sequence)
    return upsert(chance.choice(keys), sequence, chance.choice((None, 1, 2)), chance.choice((None, "x", "y")))


def cut_batches(chance: random.Random, events: list[Event]) -> Iterable[Batch]:
    size, start = chance.choice((1, 2, 3, 5, 20)), 0
    while start < len(events):
        end = start + chance.randint(1, size)
        yield Batch(start, tuple(events[start:end]))
        start = end


def show(history: History) -> str:
    """A history as a person reads it."""
    flow = history.flow
    words = [f"SCD{flow.scd_type} tracked={sorted(flow.tracked)} ignore_null={sorted(flow.ignore_null)}"]
    for batch in history.batches:
        events = (f"{e.kind}{e.key}@{e.sequence}{e.values if e.kind is Kind.UPSERT else ''}" for e in batch.events)
        words.append(f"  batch {batch.number}: " + ", ".join(events))
    return "\n".join(words)
