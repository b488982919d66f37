"""How a batch of events changes the tables: rows to insert and states to update, the same for every SQL store.

Each state table has one statement, so that a batch is a few `executemany` calls in log order. In a fold, status 0 means
"this event does not change the status". Any history is accepted; the events must be new to the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from penstock.eventlog.codec import clean_text, from_body, to_text
from penstock.eventlog.contract import Entry, Position, Row, check_version
from penstock.eventlog.drafts import draft_of
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold_statements import (
    FOLD_BUILD,
    FOLD_BUILD_PARTITION,
    FOLD_JOB,
    FOLD_PARTITION,
    INSERT_EVENT_PARTITION,
    SELECT_HEAD,
    SET_META,
)
from penstock.eventlog.tables import event_columns
from penstock.model.events import (
    BuildCancel,
    BuildRequest,
    Delegation,
    Event,
    Job,
    Partition,
    PartitionInvalidation,
    TaskCancel,
)

ExecuteMany = Callable[[str, list[Row]], object]
Select = Callable[[str, Sequence[object]], list[Row]]

_EventDraft = draft_of(Event)

LOOKUP = 500
"""The most values in one condition."""


class Tables(NamedTuple):
    """A log's tables, within one transaction that holds the log's write lock."""

    select: Select
    executemany: ExecuteMany


@dataclass(slots=True)
class States:
    """Rows for the fold statement of each state table, in log order."""

    builds: list[Row] = field(default_factory=list)
    partitions: list[Row] = field(default_factory=list)
    pairs: list[Row] = field(default_factory=list)
    jobs: list[Row] = field(default_factory=list)


def apply_events(
    executemany: ExecuteMany, entries: Iterable[tuple[int, Encoded]], version: int, recorded_at: int | None
) -> None:
    """Write new events at their positions and update the states, in the caller's transaction."""
    batch = list(entries)
    added = (recorded_at,) if version >= 2 else ()
    executemany(_insert_event(version), [_event_row(position, item) + added for position, item in batch])
    write_partitions(executemany, batch)
    write_states(executemany, to_states((position, item.event) for position, item in batch))


def write_partitions(executemany: ExecuteMany, batch: Iterable[tuple[int, Encoded]]) -> None:
    """Index events by the partitions that they name."""
    _run(executemany, INSERT_EVENT_PARTITION, [(ref, position) for position, item in batch for ref in item.partitions])


@cache
def _insert_event(version: int) -> str:
    columns = event_columns(version)
    return f"INSERT INTO penstock_event ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608


def append_batch(tables: Tables, batch: Sequence[Encoded], recorded_at: int) -> Position:
    """Append the events of a batch that are new, in the form of the log's version: a migration may have changed it."""
    found: dict[str, str] = dict(tables.select(SELECT_HEAD, ()))
    version = int(found["schema_version"])
    check_version(version)
    last = int(found.get("last_position", 0))
    new = only_new(tables.select, batch)
    if new:
        apply_events(tables.executemany, enumerate(new, start=last + 1), version, recorded_at)
        last += len(new)
        tables.executemany(SET_META, [("last_position", str(last))])
    return Position(last)


def only_new(select: Select, batch: Sequence[Encoded]) -> list[Encoded]:
    """The events that the log does not have yet, each once."""
    ids = [item.event.event_id for item in batch]
    seen: set[str] = set()
    for start in range(0, len(ids), LOOKUP):
        some = ids[start : start + LOOKUP]
        marks = ", ".join("?" * len(some))
        seen.update(row[0] for row in select(f"SELECT event_id FROM penstock_event WHERE event_id IN ({marks})", some))  # noqa: S608
    new = []
    for item in batch:
        if item.event.event_id not in seen:
            seen.add(item.event.event_id)
            new.append(item)
    return new


def to_states(entries: Iterable[tuple[int, Event]]) -> States:
    """What events say about builds, partitions and job runs."""
    states = States()
    for position, event in entries:
        payload = event.payload
        if isinstance(payload, BuildRequest | BuildCancel):
            states.builds.append(_build_row(position, event, payload))
        elif isinstance(payload, Partition):
            states.partitions.append(_partition_row(position, event, payload))
            states.pairs.append(_pair_row(position, event, payload))
        elif isinstance(payload, PartitionInvalidation):
            states.partitions.append(_invalidation_row(position, event, payload))
        elif isinstance(payload, Delegation):
            to = payload.delegated_to_build_request_id
            states.pairs.append((payload.partition_ref, event.build_request_id, 0, None, to, position, position, None))
        elif isinstance(payload, Job | TaskCancel):
            states.jobs.append(_job_row(position, event, payload))
    return states


def write_states(executemany: ExecuteMany, states: States) -> None:
    """Fold rows into the state tables."""
    _run(executemany, FOLD_BUILD, states.builds)
    _run(executemany, FOLD_PARTITION, states.partitions)
    _run(executemany, FOLD_BUILD_PARTITION, states.pairs)
    _run(executemany, FOLD_JOB, states.jobs)


def to_entry(row: Row) -> Entry:
    """Read an event back from a row of `SELECT_EVENTS`."""
    position, draft = row[0], _EventDraft()
    _, draft.event_id, draft.timestamp, draft.build_request_id, kind, body = row
    draft.payload = from_body(kind, body)
    draft.__class__ = Event
    return tuple.__new__(Entry, (position, draft))  # as Entry(position, draft), in half the time


def _run(executemany: ExecuteMany, sql: str, rows: list[Row]) -> None:
    if rows:
        executemany(sql, rows)


def _event_row(position: int, item: Encoded) -> Row:
    event = item.event
    return (
        position,
        event.event_id,
        event.timestamp,
        event.build_request_id,
        str(event.event_type),
        item.job_run_id,
        item.job_label,
        item.body,
    )


def _stored(text: str) -> str:
    # PostgreSQL rejects NUL in text. Bodies escape it as JSON; only the copies in the state tables lose it.
    return clean_text(text).replace("\0", "\ufffd")


def _build_row(position: int, event: Event, payload: BuildRequest | BuildCancel) -> Row:
    said: Row
    if isinstance(payload, BuildRequest):
        said = (payload.status.value, to_text(list(payload.requested_partitions)), _stored(payload.message), None)
    else:
        said = (0, "[]", "", _stored(payload.reason))
    return (event.build_request_id, *said, event.timestamp, event.timestamp, position, position)


def _partition_row(position: int, event: Event, payload: Partition) -> Row:
    available = payload.status == 4
    return (
        payload.partition_ref,
        payload.status.value,
        event.build_request_id,
        payload.job_run_id,
        _stored(payload.message),
        event.timestamp,
        position,
        event.build_request_id if available else None,
        event.timestamp if available else None,
        None,
    )


def _invalidation_row(position: int, event: Event, payload: PartitionInvalidation) -> Row:
    said = (payload.partition_ref, 0, event.build_request_id, None, "", event.timestamp, position)
    return (*said, None, None, _stored(payload.reason))


def _pair_row(position: int, event: Event, payload: Partition) -> Row:
    claim = position if payload.status == 2 and payload.job_run_id is not None else None
    said = (payload.partition_ref, event.build_request_id, payload.status.value, payload.job_run_id, None)
    return (*said, position, position, claim)


def _job_row(position: int, event: Event, payload: Job | TaskCancel) -> Row:
    said: Row
    if isinstance(payload, Job):
        targets = to_text(list(payload.target_partitions))
        said = (payload.job_label, targets, payload.status.value, _stored(payload.message), None)
    else:
        said = ("", "[]", 0, "", _stored(payload.reason))
    return (payload.job_run_id, event.build_request_id, *said, event.timestamp, event.timestamp, position, position)
