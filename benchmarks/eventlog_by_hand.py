"""The yardstick: SQLite as one would write it by hand for these questions, one wide indexed table and direct SQL.

It gives the same values as `penstock.eventlog.projections`, so that the times can be compared.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.eventlog.encoding import encode
from penstock.eventlog.projections import ActiveBuild, BuildState, PartitionState
from penstock.model.events import (
    BuildCancel,
    BuildRequest,
    Delegation,
    Event,
    Job,
    JobGraph,
    Partition,
    PartitionInvalidation,
    TaskCancel,
)
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

_COLUMNS = (
    "position, event_id, timestamp, build_request_id, event_type, partition_ref, job_run_id, job_label, status, message, "
    "other, list"
)
_TABLES = """
CREATE TABLE event (position INTEGER PRIMARY KEY, event_id TEXT UNIQUE, timestamp INTEGER, build_request_id TEXT,
    event_type TEXT, partition_ref TEXT, job_run_id TEXT, job_label TEXT, status INTEGER, message TEXT, other TEXT, list TEXT);
CREATE TABLE event_partition (partition_ref TEXT, position INTEGER, PRIMARY KEY (partition_ref, position)) WITHOUT ROWID;
CREATE INDEX by_build ON event (build_request_id, event_type, position);
CREATE INDEX by_partition ON event (partition_ref, event_type, position) WHERE partition_ref IS NOT NULL;
CREATE INDEX by_run ON event (job_run_id, position) WHERE job_run_id IS NOT NULL;
CREATE INDEX by_time ON event (timestamp);
CREATE INDEX by_type ON event (event_type, build_request_id, position);
"""
_EVENTS = (
    "SELECT e.position, e.event_id, e.timestamp, e.build_request_id, e.event_type, e.partition_ref, e.job_run_id, "
    "e.job_label, e.status, e.message, e.other, e.list FROM event e"
)
_BUILD_LIST = """
WITH latest AS (SELECT build_request_id, MIN(position) AS first, MAX(position) AS last FROM event
    WHERE event_type = 'build_request' GROUP BY build_request_id)
SELECT l.build_request_id, e.status, f.list, e.message, f.timestamp, e.timestamp
FROM latest l JOIN event e ON e.position = l.last JOIN event f ON f.position = l.first {where}
ORDER BY l.first DESC LIMIT ? OFFSET ?"""
_PARTITION_LIST = """
WITH latest AS (SELECT partition_ref, MAX(position) AS last FROM event
    WHERE event_type = 'partition' AND partition_ref IS NOT NULL GROUP BY partition_ref)
SELECT e.partition_ref, e.status, e.build_request_id, e.job_run_id, e.message, e.timestamp
FROM latest l JOIN event e ON e.position = l.last ORDER BY l.last DESC LIMIT ?"""
_ACTIVE = """
WITH mine AS (SELECT build_request_id, MAX(position) AS last FROM event
    WHERE partition_ref = ? AND event_type = 'partition' GROUP BY build_request_id)
SELECT m.build_request_id, e.status, e.job_run_id, (SELECT b.status FROM event b
    WHERE b.build_request_id = m.build_request_id AND b.event_type = 'build_request' ORDER BY b.position DESC LIMIT 1) AS build
FROM mine m JOIN event e ON e.position = m.last WHERE e.status IN (1, 2, 3) AND build NOT IN (4, 5, 6)"""


class ByHand:
    """A log with nothing but what these queries need."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.executescript(_TABLES)
        self.last = 0

    def append(self, events: Sequence[Event]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        rows, refs = [], []
        for event in events:
            self.last += 1
            rows.append(_row(self.last, event))
            refs.extend((ref, self.last) for ref in encode(event).partitions)
        marks = ", ".join("?" * 12)
        self.connection.executemany(f"INSERT OR IGNORE INTO event ({_COLUMNS}) VALUES ({marks})", rows)
        self.connection.executemany("INSERT INTO event_partition VALUES (?, ?)", refs)
        self.connection.execute("COMMIT")

    def events(self, where: str, *values: object) -> list[tuple[int, Event]]:
        sql = f"{_EVENTS} WHERE {where} ORDER BY e.position"
        return [_event(row) for row in self.connection.execute(sql, values).fetchall()]

    def events_of_partition(self, ref: str) -> list[tuple[int, Event]]:
        sql = (
            f"{_EVENTS} JOIN event_partition p ON p.position = e.position WHERE p.partition_ref = ? ORDER BY p.position"
        )
        return [_event(row) for row in self.connection.execute(sql, (ref,)).fetchall()]

    def partition_state(self, ref: str) -> PartitionState:
        latest = (
            "SELECT status, build_request_id, job_run_id, message, timestamp FROM event "
            "WHERE partition_ref = ? AND event_type = 'partition' ORDER BY position DESC LIMIT 1"
        )
        row = self.connection.execute(latest, (ref,)).fetchone()
        made, at, reason = self._made(ref)
        return PartitionState(ref, PartitionStatus(row[0]), row[1], row[2], row[3], row[4], made, at, reason)

    def build_that_made(self, ref: str) -> str | None:
        return self._made(ref)[0]

    def _made(self, ref: str) -> tuple[Any, Any, Any]:
        available = (
            "SELECT build_request_id, timestamp, position FROM event WHERE partition_ref = ? "
            "AND event_type = 'partition' AND status = 4 ORDER BY position DESC LIMIT 1"
        )
        gone = (
            "SELECT position, other FROM event WHERE partition_ref = ? AND event_type = 'partition_invalidation' "
            "ORDER BY position DESC LIMIT 1"
        )
        made = self.connection.execute(available, (ref,)).fetchone()
        lost = self.connection.execute(gone, (ref,)).fetchone()
        if lost and (made is None or lost[0] > made[2]):
            return None, None, lost[1]
        return (made[0], made[1], None) if made else (None, None, None)

    def active_builds(self, ref: str) -> list[ActiveBuild]:
        rows = self.connection.execute(_ACTIVE, (ref,)).fetchall()
        return [ActiveBuild(b, BuildStatus(s), PartitionStatus(p), run, run is not None) for b, p, run, s in rows]

    def list_builds(self, status: int | None, limit: int) -> tuple[list[BuildState], int]:
        where = "WHERE e.status = ?" if status else ""
        values = (status, limit, 0) if status else (limit, 0)
        rows = self.connection.execute(_BUILD_LIST.format(where=where), values).fetchall()
        builds = [BuildState(r[0], BuildStatus(r[1]), tuple(json.loads(r[2])), r[3], r[4], r[5], None) for r in rows]
        total = "SELECT COUNT(DISTINCT build_request_id) FROM event WHERE event_type = 'build_request'"
        return builds, self.connection.execute(total).fetchone()[0]

    def list_partitions(self, limit: int) -> list[PartitionState]:
        rows = self.connection.execute(_PARTITION_LIST, (limit,)).fetchall()
        return [PartitionState(r[0], PartitionStatus(r[1]), *r[2:], *self._made(r[0])) for r in rows]

    def head(self) -> int:
        return int(self.connection.execute("SELECT MAX(position) FROM event").fetchone()[0])

    def activity(self) -> list[Any]:
        latest = (
            "SELECT e.status, COUNT(*) FROM (SELECT MAX(position) AS last FROM event WHERE event_type = ? "
            "AND {key} IS NOT NULL GROUP BY {key}) l JOIN event e ON e.position = l.last GROUP BY e.status"
        )
        keys = (("build_request", "build_request_id"), ("partition", "partition_ref"), ("job", "job_run_id"))
        counts = [self.connection.execute(latest.format(key=key), (kind,)).fetchall() for kind, key in keys]
        total = self.connection.execute("SELECT COUNT(*) FROM event").fetchone()
        return [*counts, total, self.list_builds(None, 10), self.list_partitions(10)]


def _row(position: int, event: Event) -> tuple[Any, ...]:
    p = event.payload
    ref = p.partition_ref if isinstance(p, Partition | Delegation | PartitionInvalidation) else None
    run = p.job_run_id if isinstance(p, Job | TaskCancel | Partition) else None
    label = p.job_label if isinstance(p, Job) else None
    status = p.status.value if isinstance(p, BuildRequest | Partition | Job) else None
    message = getattr(p, "message", "")
    listed, other = None, getattr(p, "reason", None)
    if isinstance(p, BuildRequest):
        listed = json.dumps(p.requested_partitions)
    elif isinstance(p, Job):
        listed, other = json.dumps(p.target_partitions), json.dumps([p.config, list(p.manifests)])
    elif isinstance(p, JobGraph):
        other = json.dumps(p.job_graph)
    elif isinstance(p, Delegation):
        other = p.delegated_to_build_request_id
    head = (position, event.event_id, event.timestamp, event.build_request_id, event.event_type.value)
    return (*head, ref, run, label, status, message, other, listed)


def _event(row: tuple[Any, ...]) -> tuple[int, Event]:
    return row[0], Event(row[1], row[2], row[3], _READERS[row[4]](row))


def _job(r: tuple[Any, ...]) -> Job:
    config, manifests = json.loads(r[10])
    return Job(r[6], r[7], tuple(json.loads(r[11])), JobStatus(r[8]), r[9], config, tuple(manifests))


_READERS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "build_request": lambda r: BuildRequest(BuildStatus(r[8]), tuple(json.loads(r[11])), r[9]),
    "partition": lambda r: Partition(r[5], PartitionStatus(r[8]), r[9], r[6]),
    "job": _job,
    "delegation": lambda r: Delegation(r[5], r[10], r[9]),
    "job_graph": lambda r: JobGraph(json.loads(r[10]), r[9]),
    "partition_invalidation": lambda r: PartitionInvalidation(r[5], r[10]),
    "task_cancel": lambda r: TaskCancel(r[6], r[10]),
    "build_cancel": lambda r: BuildCancel(r[10]),
}
