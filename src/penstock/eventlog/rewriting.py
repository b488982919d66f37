"""Removing and replacing events of a SQL store in short transactions, so that appends beside it hardly wait.

The states of what is touched are folded again from the events that stay. A run that is interrupted can be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

from penstock.eventlog.contract import Entry, Position, Row
from penstock.eventlog.encoding import Encoded, encode_stored, partitions_of
from penstock.eventlog.fold import LOOKUP, Select, Tables, to_entry, to_states, write_partitions, write_states
from penstock.eventlog.fold_statements import SELECT_EVENTS, SELECT_HEAD, SET_META
from penstock.eventlog.tables import STATE_TABLES
from penstock.model.events import (
    BuildCancel,
    BuildRequest,
    Delegation,
    Event,
    Job,
    Partition,
    PartitionInvalidation,
    TaskCancel,
    Unreadable,
)

Item = TypeVar("Item")
Transaction = Callable[[], AbstractContextManager[Tables]]

_CHUNK = 2500
"""The most events that one transaction changes."""
_PAGE = 5000
_PAUSE_SECONDS = 0.05
"""Between transactions: a writer that waits for a SQLite file looks every 10 to 100 ms."""

_OF_BUILDS = "e.build_request_id"
_OF_RUNS = "e.job_run_id"


@dataclass(slots=True)
class Affected:
    """The rows of the state tables that must be folded again."""

    builds: set[str] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)
    pairs: set[tuple[str, str]] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)

    def add(self, event: Event) -> None:
        """Add what an event is about."""
        payload = event.payload
        if isinstance(payload, BuildRequest | BuildCancel):
            self.builds.add(event.build_request_id)
        elif isinstance(payload, Partition | PartitionInvalidation | Delegation):
            self.partitions.add(payload.partition_ref)
            self.pairs.add((payload.partition_ref, event.build_request_id))
        elif isinstance(payload, Job | TaskCancel):
            self.jobs.add(payload.job_run_id)


def remove_events(select: Select, transaction: Transaction, gone: Sequence[Position]) -> None:
    """Remove events that `prune` chose: those left fold to the same builds and partitions, but not to all job runs.

    States come first: if this is interrupted, the next prune finds the events again.
    """
    positions = set(gone)
    doomed = sorted(_at(select, gone), key=lambda entry: (entry.event.build_request_id, entry.position))
    for group in _whole_builds(doomed):
        affected = Affected()
        for entry in group:
            affected.add(entry.event)
        affected.builds.clear()
        affected.partitions.clear()
        for number, chunk in enumerate(_chunks(group, _CHUNK)):
            with _paused(transaction) as tables:
                if number == 0:
                    _refold(tables, affected, positions)
                _delete(tables, chunk)


def replace_events(transaction: Transaction, entries: Sequence[Entry]) -> None:
    """Give events a new payload at their old position, and fold what they are about again."""
    for chunk in _chunks(entries, _CHUNK):
        with _paused(transaction) as tables:
            affected = Affected()
            old = list(_at(tables.select, [entry.position for entry in chunk]))
            for entry in (*old, *chunk):
                affected.add(entry.event)
            _delete_partitions(tables, old)
            encoded = [(entry.position, encode_stored(entry.event)) for entry in chunk]
            write_partitions(tables.executemany, encoded)
            tables.executemany(
                "UPDATE penstock_event SET job_run_id = ?, job_label = ?, body = ? WHERE position = ?",
                [(item.job_run_id, item.job_label, item.body, position) for position, item in encoded],
            )
            _refold(tables, affected)


def rebuild_states(tables: Tables) -> None:
    """Fold all events again into empty state tables, and index them by partition again."""
    for table in (*STATE_TABLES, "penstock_event_partition"):
        tables.executemany(f"DELETE FROM {table}", [()])  # noqa: S608
    known: dict[str, str] = dict(tables.select(SELECT_HEAD, ()))
    head = int(known.get("last_position", 0))
    for entries in pages(tables.select):
        write_partitions(tables.executemany, _encoded(entries))
        write_states(tables.executemany, to_states(entries))
        head = max(head, entries[-1].position)
    tables.executemany(SET_META, [("last_position", str(head))])


def pages(select: Select) -> Iterator[list[Entry]]:
    """All events in log order, in parts."""
    after = 0
    while rows := select(f"{SELECT_EVENTS} WHERE e.position > ? ORDER BY e.position LIMIT ?", (after, _PAGE)):
        yield list(map(to_entry, rows))
        after = rows[-1][0]


def _refold(tables: Tables, affected: Affected, without: Collection[int] = ()) -> None:
    """Fold again what is affected, from its events that stay."""
    builds = affected.builds | {build for _, build in affected.pairs}
    rows = [
        *_rows(tables, _OF_BUILDS, builds),
        *_rows(tables, _OF_RUNS, affected.jobs),
        *_rows_of_partitions(tables, affected.partitions),
    ]
    staying = {row[0]: row for row in rows if row[0] not in without}
    states = to_states(to_entry(staying[position]) for position in sorted(staying))
    states.builds = [row for row in states.builds if row[0] in affected.builds]
    states.partitions = [row for row in states.partitions if row[0] in affected.partitions]
    states.pairs = [row for row in states.pairs if row[:2] in affected.pairs]
    states.jobs = [row for row in states.jobs if row[0] in affected.jobs]
    for sql, keys in (
        ("DELETE FROM penstock_build WHERE build_request_id = ?", [(key,) for key in affected.builds]),
        ("DELETE FROM penstock_partition WHERE partition_ref = ?", [(key,) for key in affected.partitions]),
        ("DELETE FROM penstock_build_partition WHERE partition_ref = ? AND build_request_id = ?", list(affected.pairs)),
        ("DELETE FROM penstock_job WHERE job_run_id = ?", [(key,) for key in affected.jobs]),
    ):
        if keys:
            tables.executemany(sql, keys)
    write_states(tables.executemany, states)


def _delete(tables: Tables, entries: Sequence[Entry]) -> None:
    _delete_partitions(tables, entries)
    tables.executemany("DELETE FROM penstock_event WHERE position = ?", [(entry.position,) for entry in entries])


def _delete_partitions(tables: Tables, entries: Iterable[Entry]) -> None:
    """By the index's own key: there is none by position, which would make every append slower."""
    keys: list[Row] = [(ref, entry.position) for entry in entries for ref in partitions_of(entry.event.payload)]
    if keys:
        tables.executemany("DELETE FROM penstock_event_partition WHERE partition_ref = ? AND position = ?", keys)
    unknown: list[Row] = [(entry.position,) for entry in entries if isinstance(entry.event.payload, Unreadable)]
    if unknown:
        tables.executemany("DELETE FROM penstock_event_partition WHERE position = ?", unknown)


def _encoded(entries: Iterable[Entry]) -> list[tuple[int, Encoded]]:
    return [(entry.position, encode_stored(entry.event)) for entry in entries]


@contextmanager
def _paused(transaction: Transaction) -> Iterator[Tables]:
    """A transaction, and time for other writers after it."""
    with transaction() as tables:
        yield tables
    time.sleep(_PAUSE_SECONDS)


def _whole_builds(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Groups of about a chunk that do not cut a build: its events would be read again for each part."""
    group: list[Entry] = []
    for _, events in groupby(entries, key=lambda entry: entry.event.build_request_id):
        build = list(events)
        if group and len(group) + len(build) > _CHUNK:
            yield group
            group = []
        group += build
    if group:
        yield group


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _at(select: Select, positions: Sequence[int]) -> Iterator[Entry]:
    for some in _chunks(positions, LOOKUP):
        marks = ", ".join("?" * len(some))
        yield from map(to_entry, select(f"{SELECT_EVENTS} WHERE e.position IN ({marks})", some))


def _rows(tables: Tables, column: str, values: Collection[str]) -> Iterator[Row]:
    for some in _chunks(sorted(values), LOOKUP):
        marks = ", ".join("?" * len(some))
        yield from tables.select(f"{SELECT_EVENTS} WHERE {column} IN ({marks})", some)


def _rows_of_partitions(tables: Tables, refs: Collection[str]) -> Iterator[Row]:
    for some in _chunks(sorted(refs), LOOKUP):
        marks = ", ".join("?" * len(some))
        chosen = f"SELECT position FROM penstock_event_partition WHERE partition_ref IN ({marks})"  # noqa: S608
        yield from tables.select(f"{SELECT_EVENTS} WHERE e.position IN ({chosen})", some)
