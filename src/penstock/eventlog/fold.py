"""How a batch of events changes the tables: rows to insert and states to update, the same for every SQL store.

Each state table has one statement, so that a batch is a few `executemany` calls in log order. In a fold, status 0 means
"this event does not change the status". Any history is accepted; the events must be new to the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from penstock.eventlog.codec import clean_text, from_body, to_text
from penstock.eventlog.contract import Entry, Position, Row
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold_statements import (
    FOLD_BUILD,
    FOLD_BUILD_PARTITION,
    FOLD_JOB,
    FOLD_PARTITION,
    INSERT_EVENT_PARTITION,
    SELECT_EVENTS,
    SELECT_META,
    SET_META,
)
from penstock.eventlog.tables import STATE_TABLES, event_columns
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

_LOOKUP = 500
_PAGE = 5000


def apply_events(
    executemany: ExecuteMany, entries: Iterable[tuple[int, Encoded]], version: int, recorded_at: int | None
) -> None:
    """Write new events at their positions and update the states, in the caller's transaction."""
    batch = list(entries)
    added = (recorded_at,) if version >= 2 else ()
    executemany(_insert_event(version), [_event_row(position, item) + added for position, item in batch])
    _run(executemany, INSERT_EVENT_PARTITION, [(ref, position) for position, item in batch for ref in item.partitions])
    apply_states(executemany, ((position, item.event) for position, item in batch))


@cache
def _insert_event(version: int) -> str:
    columns = event_columns(version)
    return f"INSERT INTO penstock_event ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608


def append_batch(
    select: Select, executemany: ExecuteMany, batch: Sequence[Encoded], version: int, recorded_at: int
) -> Position:
    """Append the events of a batch that are new; the caller holds the log's write lock."""
    found = select(SELECT_META, ("last_position",))
    last = int(found[0][0]) if found else 0
    new = only_new(select, batch)
    if new:
        apply_events(executemany, enumerate(new, start=last + 1), version, recorded_at)
        last += len(new)
        executemany(SET_META, [("last_position", str(last))])
    return Position(last)


def only_new(select: Select, batch: Sequence[Encoded]) -> list[Encoded]:
    """The events that the log does not have yet, each once."""
    ids = [item.event.event_id for item in batch]
    seen: set[str] = set()
    for start in range(0, len(ids), _LOOKUP):
        some = ids[start : start + _LOOKUP]
        marks = ", ".join("?" * len(some))
        seen.update(row[0] for row in select(f"SELECT event_id FROM penstock_event WHERE event_id IN ({marks})", some))  # noqa: S608
    new = []
    for item in batch:
        if item.event.event_id not in seen:
            seen.add(item.event.event_id)
            new.append(item)
    return new


def apply_states(executemany: ExecuteMany, entries: Iterable[tuple[int, Event]]) -> None:
    """Fold events into the state tables; also used to rebuild them from all events."""
    builds: list[Row] = []
    partitions: list[Row] = []
    pairs: list[Row] = []
    jobs: list[Row] = []
    for position, event in entries:
        payload = event.payload
        if isinstance(payload, BuildRequest | BuildCancel):
            builds.append(_build_row(position, event, payload))
        elif isinstance(payload, Partition):
            partitions.append(_partition_row(position, event, payload))
            pairs.append(_pair_row(position, event, payload))
        elif isinstance(payload, PartitionInvalidation):
            partitions.append(_invalidation_row(position, event, payload))
        elif isinstance(payload, Delegation):
            to = payload.delegated_to_build_request_id
            pairs.append((payload.partition_ref, event.build_request_id, 0, None, to, position, position, None))
        elif isinstance(payload, Job | TaskCancel):
            jobs.append(_job_row(position, event, payload))
    _run(executemany, FOLD_BUILD, builds)
    _run(executemany, FOLD_PARTITION, partitions)
    _run(executemany, FOLD_BUILD_PARTITION, pairs)
    _run(executemany, FOLD_JOB, jobs)


def remove_events(
    select: Select, executemany: ExecuteMany, execute: Callable[[str], object], gone: Sequence[int]
) -> None:
    """Remove events and rebuild the states from the rest; the caller holds the log's write lock."""
    executemany("DELETE FROM penstock_event WHERE position = ?", [(position,) for position in gone])
    executemany("DELETE FROM penstock_event_partition WHERE position = ?", [(position,) for position in gone])
    for table in STATE_TABLES:
        execute(f"DELETE FROM {table}")  # noqa: S608
    after = 0
    while rows := select(f"{SELECT_EVENTS} WHERE e.position > ? ORDER BY e.position LIMIT ?", (after, _PAGE)):
        apply_states(executemany, map(to_entry, rows))
        after = rows[-1][0]


def to_entry(row: Row) -> Entry:
    """Read an event back from a row of `SELECT_EVENTS`."""
    position, event_id, timestamp, build_request_id, event_type, body = row
    return Entry(position, Event(event_id, timestamp, build_request_id, from_body(event_type, body)))


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
        event.event_type.value,
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
