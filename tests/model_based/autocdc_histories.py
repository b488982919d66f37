"""Histories for AutoCDC by chance, and a world that lives through one: writers, crashes, redelivery, racing clean-up.

Sequences, keys and values come from small ranges, so that ties, late events and splits of runs are the rule.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
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
from tests.model_based.autocdc_simulation import Batch, Reconcile, Steps, apply_batch, clean_up, is_dead
from tests.model_based.autocdc_store import Store

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
    store: Store = field(default_factory=Store)
    batches: dict[Any, Batch] = field(default_factory=dict)
    checked: int = 0

    def deliver(self, batch: Batch) -> Steps:
        self.batches[batch.id] = batch
        return apply_batch(self.store, self.flow, batch, RECONCILE[self.flow.scd_type])

    def apply(self, *events: Event, batch_id: Any = None) -> None:
        """Apply one batch from beginning to end."""
        finish(self.deliver(Batch(len(self.batches) if batch_id is None else batch_id, events)))

    def shown(self) -> frozenset[Any]:
        return frozenset(row.shown for row in self.store.versions[-1].rows)

    def committed_events(self) -> set[Event]:
        """The events of all batches that the chain of manifests says are in."""
        return {event for batch_id in self.store.read_target().batch_ids for event in self.batches[batch_id].events}

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
        """The auxiliary table holds what is needed, and besides only what the next clean-ups will take."""
        snapshot, needed = self.store.read_target(), remembered(self.flow, self.committed_events())
        counted = {copy.event for copy in self.store.read_auxiliary(snapshot.chain)}
        assert needed <= counted, f"lost: {needed - counted}"
        given_up = {identity for number in snapshot.chain for identity in self.store.manifests[number].forget}
        for copy in self.store.auxiliary:
            is_pending = copy.attempt > snapshot.number
            is_garbage = copy.identity in given_up or is_dead(copy.attempt, snapshot.number, snapshot.chain)
            assert copy.event in needed or is_garbage or is_pending, f"{copy} stays for ever"

    def check_end(self, events: Iterable[Event]) -> None:
        """At rest: the oracle's rows, and after a clean-up exactly what must be remembered, once."""
        events = set(events)
        self.check_shown(events)
        finish(clean_up(self.store))
        kept = [copy.event for copy in self.store.auxiliary]
        assert len(kept) == len(set(kept)), "two copies of one event"
        assert set(kept) == remembered(self.flow, events)


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
    """One writer after the other; some die on the way, batches come twice, clean-up runs now and then."""
    world, delivered = World(history.flow), set[Event]()
    for batch in history.batches:
        while die_or_finish(world.deliver(batch), chance, world):
            pass
        delivered |= set(batch.events)
        world.check_shown(delivered)
        if chance.random() < 0.3:
            die_or_finish(clean_up(world.store), chance, world)
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
    """Old events again, under the old id or as a new batch: no new version, no write."""
    batch = chance.choice(list(world.batches.values()))
    before = len(world.store.versions), world.store.auxiliary_version
    if chance.random() < 0.5:
        batch = Batch(("again", len(world.batches)), tuple(chance.choices(batch.events, k=len(batch.events))))
    finish(world.deliver(batch))
    assert (len(world.store.versions), world.store.auxiliary_version) == before


def live_at_once(history: History, chance: random.Random) -> None:
    """Two writers and a clean-up take turns step by step; whoever dies is started again with the same batch."""
    world, waiting = World(history.flow), list(history.batches)
    for batch in waiting:
        world.batches[batch.id] = batch
    at_work: list[tuple[Batch | None, Steps]] = []
    while waiting or any(batch for batch, _ in at_work):
        if waiting and sum(batch is not None for batch, _ in at_work) < 2:
            batch = waiting.pop(0)
            at_work.append((batch, world.deliver(batch)))
        if chance.random() < 0.1 and all(batch for batch, _ in at_work):
            at_work.append((None, clean_up(world.store)))
        worker = chance.choice(at_work)
        if take_steps(worker[1], chance, world):
            at_work.remove(worker)
        elif chance.random() < 0.01:
            worker[1].close()
            at_work.remove(worker)
            waiting += [worker[0]] if worker[0] else []
    for _, steps in at_work:
        finish(steps)
    world.check_end(event for batch in history.batches for event in batch.events)


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
    return History(flow, tuple(cut_batches(chance, events)))


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
        words.append(f"  batch {batch.id}: " + ", ".join(events))
    return "\n".join(words)
