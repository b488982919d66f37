"""Replay and diff of one key in plain Python, for batches so small that planning a query would take longer than the work.

Sequences and contents are ranks: whole numbers that compare as the values do. `place` is the index of a value in the
caller's table. The same rules as DataFrame transforms are in `transforms/scd1` and `transforms/scd2`; partial flows have
those only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Content = tuple[int, ...]


class Row(NamedTuple):
    """A stored row: its interval (for SCD1, none), the sequence of its own event, and its place."""

    start: int
    end: int | None
    sequence: int
    place: int


class Upsert(NamedTuple):
    """An upsert; `copy` is its place among the copies of the auxiliary table, if it is one."""

    sequence: int
    place: int
    copy: int | None = None


class Delete(NamedTuple):
    sequence: int
    copy: int | None = None


@dataclass(slots=True)
class KeyEvents:
    """All stored rows and events of one key."""

    rows: list[Row] = field(default_factory=list)
    upserts: list[Upsert] = field(default_factory=list)
    deletes: list[Delete] = field(default_factory=list)


class Added(NamedTuple):
    """A row to write: the values at this place, from start to end, by the event with this sequence."""

    place: int
    start: int | None
    end: int | None
    sequence: int


class Remembered(NamedTuple):
    """An event for the auxiliary table; a delete has no values."""

    sequence: int
    place: int | None


@dataclass(slots=True)
class KeyChange:
    """What changes for one key."""

    added: list[Added] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    """Places of stored rows."""
    remembered: list[Remembered] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    """Places of copies."""
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class _Event:
    """What happened at one sequence: an upsert with the values at this place, or a delete."""

    sequence: int
    place: int | None


def replay_scd2(
    key: KeyEvents, contents: Sequence[Content], tracked: Sequence[Content], truncates: frozenset[int]
) -> KeyChange:
    """Split the events of a key into runs of equal rows, one row each, and compare with the stored rows."""
    starts, ends = {row.start for row in key.rows}, {row.end for row in key.rows}
    counted = [event for event in key.upserts if event.copy is None or _is_covered(event, key.rows)]
    own = [Upsert(row.sequence, row.place) for row in key.rows]
    deleted = {event.sequence for event in key.deletes} | truncates
    deleted |= {end for end in ends if end is not None and end not in starts}
    change = KeyChange(is_damaged=not starts <= {event.sequence for event in (*counted, *own)})
    history = _collapse([*counted, *own], deleted, contents)

    after: dict[int, Added] = {}
    needed: dict[int, Remembered] = {}
    start: int | None = None
    before: _Event | None = None
    for event, following in zip(history, [*history[1:], None], strict=True):
        if event.place is None:
            is_lone = before is None or before.place is None
            if is_lone and event.sequence not in truncates:
                needed[event.sequence] = Remembered(event.sequence, None)
            start = None
        else:
            start = event.sequence if start is None else start
            is_last = following is None or following.place is None or tracked[event.place] != tracked[following.place]
            if is_last:
                end = following.sequence if following else None
                after[event.sequence] = Added(event.place, start, end, event.sequence)
                start = None
            else:
                needed[event.sequence] = Remembered(event.sequence, event.place)
        before = event

    for row in key.rows:
        found = after.get(row.sequence)
        if found and (found.start, found.end) == (row.start, row.end) and contents[found.place] == contents[row.place]:
            del after[row.sequence]
        else:
            change.removed.append(row.place)
    change.added = list(after.values())
    _remember(change, key, needed, counted, contents, given_up=ends)
    return change


def replay_scd1(
    key: KeyEvents, contents: Sequence[Content], _tracked: Sequence[Content], truncates: frozenset[int]
) -> KeyChange:
    """Keep the last event of a key, and store a delete while no row has a higher sequence."""
    own = [Upsert(row.sequence, row.place) for row in key.rows]
    deleted = {event.sequence for event in key.deletes} | truncates
    last = _collapse([*key.upserts, *own], deleted, contents)[-1]
    change = KeyChange()
    stays = False
    for row in key.rows:
        stays = last.place is not None and last.sequence == row.sequence and contents[last.place] == contents[row.place]
        if not stays:
            change.removed.append(row.place)
    if last.place is not None and not stays:
        change.added.append(Added(last.place, None, None, last.sequence))
    needed: dict[int, Remembered] = {}
    if last.place is None and last.sequence not in truncates:
        needed[last.sequence] = Remembered(last.sequence, None)
    _remember(change, key, needed, [], contents, given_up=frozenset())
    return change


def _is_covered(event: Upsert, rows: Sequence[Row]) -> bool:
    """Whether a copy is a hidden member of a stored row's run; all others are to be removed."""
    return any(row.start <= event.sequence < row.sequence for row in rows)


def _collapse(upserts: Iterable[Upsert], deleted: set[int], contents: Sequence[Content]) -> list[_Event]:
    """One event for each sequence, in order: a delete beats upserts, of those the greatest content wins."""
    places: dict[int, int] = {}
    for event in upserts:
        rival = places.get(event.sequence)
        if rival is None or contents[event.place] > contents[rival]:
            places[event.sequence] = event.place
    sequences = sorted(places.keys() | deleted)
    return [_Event(sequence, None if sequence in deleted else places[sequence]) for sequence in sequences]


def _remember(
    change: KeyChange,
    key: KeyEvents,
    needed: dict[int, Remembered],
    counted: Sequence[Upsert],
    contents: Sequence[Content],
    given_up: Iterable[int | None],
) -> None:
    """Split copies into those that are still needed and those to forget; an event that no copy has must be stored.

    A copy of a delete at which a stored row ended may be removed at any time: it does not count.
    """
    missing = dict(needed)
    given_up = set(given_up)
    for event in counted:
        if event.copy is not None:
            need = needed.get(event.sequence)
            if need and need.place is not None and contents[need.place] == contents[event.place]:
                missing.pop(event.sequence, None)
            else:
                change.forgotten.append(event.copy)
    for delete in key.deletes:
        if delete.copy is not None:
            need = needed.get(delete.sequence)
            if need is None or need.place is not None:
                change.forgotten.append(delete.copy)
            elif delete.sequence not in given_up:
                missing.pop(delete.sequence, None)
    change.remembered = list(missing.values())
