"""AutoCDC as it runs on a target and the segments beside it, in plain Python: `apply_batch` is the table of contents.

Everything that touches storage is a step of a generator, which yields the step's name when it is done. So a test can let
an attempt die between any two steps, and let several attempts take turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.model_based.autocdc_model import Event, Flow, Key, Kind
from tests.model_based.autocdc_store import Copy, Manifest, Row, Segment, SegmentName, Snapshot, Store

Steps = Generator[str, None, None]


@dataclass(frozen=True, slots=True)
class Batch:
    """Events that are delivered together, perhaps under an id that the source gives; not a transaction number."""

    number: Hashable
    """Which batch of the test it is."""
    events: tuple[Event, ...]
    id: Hashable = None

    @property
    def mark(self) -> Hashable:
        """What tells that this very batch was applied last; None without an id."""
        return None if self.id is None else (self.id, frozenset(self.events))


@dataclass(frozen=True, slots=True)
class Habits:
    """When a batch does more than it must: merges so many segments into one, and removes old ones every so many commits."""

    longest_list: int = 3
    tidy_after: int = 2


USUAL = Habits()


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


class DamagedError(Exception):
    """A segment that counts is gone: go on, and rows would be wrong for good. Nothing was written."""


def apply_batch(
    store: Store, flow: Flow, batch: Batch, reconcile: Reconcile, habits: Habits = USUAL, patience: int = 100
) -> Steps:
    """Apply one batch: check, find, replay and diff, write what to remember, take a number, commit, read back, tidy."""
    check_batch(flow, batch.events)
    for _ in range(patience):
        snapshot = store.read_target()
        yield "read target"
        if batch.mark is not None and batch.mark == snapshot.mark:
            return
        segments = store.read_segments(snapshot.segments)
        yield "read segments"
        if len(segments) < len(snapshot.segments):
            check_others_were_faster(store, snapshot)
            continue
        change = reconcile(flow, snapshot.rows, {c for segment in segments for c in segment.copies}, batch.events)
        mark = batch.mark or snapshot.mark
        if change.is_nothing and mark == snapshot.mark:
            return
        kept = yield from write_segment(store, snapshot, segments, change, habits)
        manifest = Manifest(snapshot.base, batch.number, kept, snapshot.doubtful, mark, snapshot.commits + 1)
        number = yield from begin_attempt(store, manifest)
        if number is None:
            continue
        store.commit_target(number, change.removed, change.added)
        yield "committed target"
        if is_committed(store, number):
            if manifest.commits % habits.tidy_after == 0:
                yield from remove_unlisted(store, snapshot.base or 0, kept)
            return
    raise LostTooManyRacesError


def check_others_were_faster(store: Store, snapshot: Snapshot) -> None:
    """A segment is gone. Others may have merged and removed it since the manifest was read; if not, it is damage."""
    if store.read_target().base == snapshot.base:
        raise DamagedError


def write_segment(
    store: Store, snapshot: Snapshot, segments: Sequence[Segment], change: Change, habits: Habits
) -> Generator[str, None, tuple[SegmentName, ...]]:
    """Write what is to be remembered and forgotten, before a number is taken; gives the list for the manifest.

    Until a committed manifest lists it, the segment is nothing. So one commit decides for both tables, an attempt that
    dies here needs no fence, and nobody has to tell its copies from others.
    """
    attempt = store.draw()
    copies = frozenset(Copy(event, attempt) for event in change.remember)
    forget = frozenset(copy.identity for copy in change.forget)
    segment = Segment((snapshot.base or 0, attempt), copies, forget)
    others = snapshot.segments
    if len(segments) >= habits.longest_list:
        known = [replace(s, forget=frozenset()) if s.name in snapshot.doubtful else s for s in segments]
        segment, others = merge_segments(segment, known), ()
    if not segment.copies and not segment.forget:
        return others
    store.write_segment(segment)
    yield "wrote segment"
    return (*others, segment.name)


def merge_segments(new: Segment, segments: Sequence[Segment]) -> Segment:
    """All copies in one segment, without those that were forgotten: each by key, sequence and attempt.

    What a batch hides again gets a new copy with a new attempt. So a copy that was given up never counts again.
    """
    everything = [*segments, new]
    forgotten = {identity for segment in everything for identity in segment.forget}
    copies = {copy for segment in everything for copy in segment.copies if copy.identity not in forgotten}
    return Segment(new.name, frozenset(copies))


def remove_unlisted(store: Store, base: int, kept: Collection[SegmentName]) -> Steps:
    """Remove segments that the load after `base` does not list; it is our own, and it is committed."""
    for name in sorted(store.segments):
        if is_removable(name, base, kept):
            store.remove_segment(name)
            yield "removed segment"


def is_removable(name: SegmentName, base: int, kept: Collection[SegmentName]) -> bool:
    """Whether a segment can never come to count: its attempt was computed from a load that is not the newest any more.

    One that was computed from a later load may belong to an attempt that is about to commit.
    """
    return name not in kept and name[0] <= base


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
        if not is_as_read(snapshot, manifest):
            return None
        if not store.find_rivals(snapshot.number, number):
            return number
        fence = store.create_manifest(Manifest(snapshot.base, is_fence=True))
        yield "took fence number"
        store.commit_target(fence)
        yield "fenced"


def is_as_read(snapshot: Snapshot, manifest: Manifest) -> bool:
    """Whether nothing was loaded since the rows were read; fences change no rows."""
    return snapshot.base == manifest.parent


def is_committed(store: Store, number: int) -> bool:
    """Whether the newest commit is ours. One that was overtaken since looks lost; the next try then finds nothing to do."""
    return store.read_target().number == number


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
