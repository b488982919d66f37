"""AutoCDC as it runs on two tables, in plain Python: `apply_batch` is the table of contents.

Everything that touches storage is a step of a generator, which yields the step's name when it is done. So a test can let
an attempt die between any two steps, and let several attempts and clean-ups take turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.model_based.autocdc_model import Event, Flow, Key, Kind
from tests.model_based.autocdc_store import Copy, Manifest, Row, Store

Steps = Generator[str, None, None]


@dataclass(frozen=True, slots=True)
class Batch:
    """Events that are delivered together, under an id that the source gives; not a transaction number."""

    id: Hashable
    events: tuple[Event, ...]


@dataclass
class Change:
    """What a batch makes of the stored rows: the difference, and what to remember and forget beside the target."""

    removed: set[Row] = field(default_factory=set)
    added: set[Row] = field(default_factory=set)
    remember: set[Event] = field(default_factory=set)
    forget: set[Copy] = field(default_factory=set)

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to commit; what may be forgotten can wait for the next batch."""
        return not (self.removed or self.added or self.remember)


Reconcile = Callable[[Flow, Iterable[Row], Iterable[Copy], Sequence[Event]], Change]
"""Stored rows, counted copies and new events -> change. Pure, so that it can be tested without storage."""


class BadBatchError(Exception):
    """Rows that cannot be applied; nothing was written."""


class LostTooManyRacesError(Exception):
    """Other writers were faster every time; the batch can be delivered again."""


def apply_batch(store: Store, flow: Flow, batch: Batch, reconcile: Reconcile, patience: int = 100) -> Steps:
    """Apply one batch: check, find, replay and diff, write what to remember, commit, read back."""
    check_batch(flow, batch.events)
    for _ in range(patience):
        snapshot = store.read_target()
        yield "read target"
        if batch.id in snapshot.batch_ids:
            return
        copies = store.read_auxiliary(snapshot.chain)
        yield "read auxiliary"
        change = reconcile(flow, snapshot.rows, copies, batch.events)
        if change.is_nothing:
            return
        forget = frozenset(copy.identity for copy in change.forget)
        number = yield from begin_attempt(store, Manifest(snapshot.base, batch.id, forget=forget))
        if number is None:
            continue
        if change.remember:
            store.add_auxiliary(number, change.remember)
            yield "added to auxiliary"
        store.commit_target(number, change.removed, change.added)
        yield "committed target"
        if is_committed(store, number):
            return
    raise LostTooManyRacesError


def check_batch(flow: Flow, events: Sequence[Event]) -> None:
    """Refuse the whole batch, with counts, before anything is written."""
    found: Counter[str] = Counter()
    for event in events:
        found["null key"] += event.kind is not Kind.TRUNCATE and (not event.key or None in event.key)
        found["null sequence"] += event.sequence is None
        found["unknown columns"] += event.kind is Kind.UPSERT and len(event.values) != len(flow.columns)
    try:
        sorted(event.sequence for event in events if event.sequence is not None)
    except TypeError:
        found["unorderable sequence"] += 1
    if any(found.values()):
        raise BadBatchError(", ".join(f"{count} x {what}" for what, count in found.items() if count))


def begin_attempt(store: Store, manifest: Manifest) -> Generator[str, None, int | None]:
    """Take a number for a change of the load `manifest.parent`; None when the table is no longer as it was then.

    A lower number that is not committed may be dead or slow. A fence, an empty commit with a higher number, makes sure
    that it can no longer commit. A rival that comes later has a higher number and fences us off. So once we hold a number
    alone, either the table stays as we read it, or our commit is skipped.
    """
    while True:
        number = store.create_manifest(manifest)
        yield "took number"
        snapshot = store.read_target()
        yield "read state"
        if snapshot.base != manifest.parent:
            return None
        if not store.find_pending(snapshot.number, number):
            return number
        fence = store.create_manifest(Manifest(snapshot.base, is_fence=True))
        yield "took fence number"
        store.commit_target(fence)
        yield "fenced"


def is_committed(store: Store, number: int) -> bool:
    """Whether the newest load is ours. One that was overtaken since looks lost; its batch id then ends the next try."""
    return store.read_target().base == number


def clean_up(store: Store) -> Steps:
    """Delete copies that are of no use, at any time, beside any writer: each by key, sequence and attempt.

    What a batch hides again gets a new copy with a new attempt. So a copy that was given up never counts again, and
    a slow clean-up cannot take what is needed.
    """
    snapshot = store.read_target()
    yield "read target"
    given_up = {identity for number in snapshot.chain for identity in store.manifests[number].forget}
    yield "read manifests"
    dead = {copy.identity for copy in store.auxiliary if is_dead(copy.attempt, snapshot.number, snapshot.chain)}
    yield "read auxiliary"
    present = {copy.identity for copy in store.auxiliary} & (given_up | dead)
    if present:
        store.remove_auxiliary(present)
        yield "removed from auxiliary"


def is_dead(attempt: int, number: int, chain: frozenset[int]) -> bool:
    """Whether an attempt can never commit: it did not, and a higher number did."""
    return attempt <= number and attempt not in chain


def group_by_key(items: Iterable[Any], key_of: Callable[[Any], Key]) -> dict[Key, list[Any]]:
    """The items of each key."""
    found: dict[Key, list[Any]] = {}
    for item in items:
        found.setdefault(key_of(item), []).append(item)
    return found


@dataclass(frozen=True, slots=True)
class KeyPart:
    """All that one key brings to a batch: stored rows, counted copies, new events; and the truncates, old and new."""

    key: Key
    rows: list[Row]
    copies: list[Copy]
    events: list[Event]
    old_truncates: frozenset[Any]
    new_truncates: frozenset[Any]

    @property
    def truncates(self) -> frozenset[Any]:
        return self.old_truncates | self.new_truncates


def split_by_key(rows: Iterable[Row], copies: Iterable[Copy], events: Sequence[Event]) -> list[KeyPart]:
    """The parts of the keys that the batch concerns: its own, or with a truncate all."""
    rows_of = group_by_key(rows, lambda row: row.key)
    copies_of = group_by_key(copies, lambda copy: copy.event.key)
    events_of = group_by_key(events, lambda event: event.key)
    old = frozenset(copy.event.sequence for copy in copies_of.pop((), []))
    new = frozenset(event.sequence for event in events_of.pop((), []))
    keys = events_of.keys() | rows_of.keys() | copies_of.keys() if new else events_of.keys()
    return [
        KeyPart(key, rows_of.get(key, []), copies_of.get(key, []), events_of.get(key, []), old, new) for key in keys
    ]
