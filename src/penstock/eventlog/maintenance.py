"""Checking and repairing a log: the events are the truth, and everything else must follow from them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.eventlog.contract import Entry, EventLog, Position, Snapshot
from penstock.eventlog.encoding import encode_stored
from penstock.eventlog.fold import apply_events
from penstock.eventlog.fold_statements import SELECT_HEAD
from penstock.eventlog.rewriting import pages
from penstock.eventlog.store import SqliteStore
from penstock.eventlog.tables import STATE_TABLES
from penstock.model.events import Unreadable

_NAMED = 5


@dataclass(frozen=True, slots=True)
class UnreadableEvent:
    """An event that this version cannot read."""

    position: Position
    event_id: str
    event_type: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What is in a log, and what is wrong with it."""

    events: int
    unreadable: tuple[UnreadableEvent, ...]
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether states, indexes and storage follow from the events. Events of a newer version are no damage."""
        return not self.problems


def verify(log: EventLog) -> Verification:
    """Read every event, fold all of them again, and compare the result with what the log has, at one moment."""
    unreadable: list[UnreadableEvent] = []
    count = head = 0
    fresh = SqliteStore(None)
    try:
        with log.snapshot() as snapshot:
            problems = list(snapshot.problems)
            for entries in pages(snapshot.select):
                unreadable += (found for entry in entries if (found := _unreadable(entry)) is not None)
                with fresh.tables() as tables:
                    batch = [(entry.position, encode_stored(entry.event)) for entry in entries]
                    apply_events(tables.executemany, batch, 1, None)
                count += len(entries)
                head = entries[-1].position
            known: dict[str, str] = dict(snapshot.select(SELECT_HEAD, ()))
            if int(known.get("last_position", 0)) < head:
                problems.append(f"the head is {known.get('last_position', 0)}, but the last event is at {head}")
            for table in STATE_TABLES:
                problems += _compare(snapshot, fresh, table, f"SELECT * FROM {table}", ())  # noqa: S608
            index = "SELECT position, partition_ref FROM penstock_event_partition"
            unknown = {each.position for each in unreadable}
            problems += _compare(snapshot, fresh, "penstock_event_partition", index, unknown)
    finally:
        fresh.close()
    return Verification(count, tuple(unreadable), tuple(problems))


def repair(log: EventLog, *, remove_unreadable: bool = False) -> Verification:
    """Rebuild what follows from the events, and say what is left wrong. Events that cannot be read stay unless asked."""
    if remove_unreadable:
        gone = [each.position for each in verify(log).unreadable]
        if gone:
            log.remove(gone)
    log.repair_storage()
    log.rebuild()
    return verify(log)


def _unreadable(entry: Entry) -> UnreadableEvent | None:
    payload = entry.event.payload
    if not isinstance(payload, Unreadable):
        return None
    return UnreadableEvent(entry.position, entry.event.event_id, payload.event_type, payload.reason)


def _compare(snapshot: Snapshot, fresh: SqliteStore, table: str, sql: str, without: Collection[int]) -> list[str]:
    found, expected = set(snapshot.select(sql, ())), set(fresh.select(sql))
    if without:
        found = {row for row in found if row[0] not in without}
    problems = []
    for rows, wrong in ((expected - found, "missing or different"), (found - expected, "not in the events")):
        if rows:
            named = ", ".join(sorted({str(row[0]) for row in rows})[:_NAMED])
            problems.append(f"{len(rows)} rows of {table} are {wrong}: {named}{' …' if len(rows) > _NAMED else ''}")
    return problems
