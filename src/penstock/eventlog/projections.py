"""Queries on the log, with the same results on every backend: builds, partitions, job runs, activity.

Each function takes an open log and returns values; `strict=True` includes every event whose append has returned. Lists
are in log order or newest first as documented, never by the clock, so that equal timestamps make no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.eventlog.codec import BUILD_OF, JOB_OF, PARTITION_OF, Status, from_text, to_status
from penstock.eventlog.contract import Entry, EventLog, Filter, Position, Row
from penstock.eventlog.drafts import draft_of
from penstock.eventlog.fold import to_entry
from penstock.eventlog.fold_statements import SELECT_EVENTS
from penstock.eventlog.states import ActiveBuild, Activity, BuildPage, BuildState, JobState, PartitionState
from penstock.model.status import OPEN_BUILD, BuildStatus, JobStatus, PartitionStatus

DEFAULT_LIMIT = 50


_BUILD = (
    "SELECT build_request_id, status, requested_partitions, message, created_at, updated_at, cancel_reason "
    "FROM penstock_build"
)
_PARTITION = (
    "SELECT partition_ref, status, build_request_id, job_run_id, message, updated_at, available_build_request_id, "
    "available_at, invalidated_reason FROM penstock_partition"
)
_JOB = (
    "SELECT job_run_id, build_request_id, job_label, target_partitions, status, message, created_at, updated_at, "
    "cancel_reason FROM penstock_job"
)
_OF_BUILD = f"{SELECT_EVENTS} WHERE e.build_request_id = ? ORDER BY e.position"
_OF_PARTITION = (
    f"{SELECT_EVENTS} JOIN penstock_event_partition p ON p.position = e.position "
    "WHERE p.partition_ref = ? ORDER BY p.position"
)
_OF_JOB_RUN = f"{SELECT_EVENTS} WHERE e.job_run_id = ? ORDER BY e.position"
_ACTIVE = """
SELECT p.build_request_id, COALESCE(b.status, 0), p.status, p.job_run_id, p.claim_position IS NOT NULL
FROM penstock_build_partition p LEFT JOIN penstock_build b ON b.build_request_id = p.build_request_id
WHERE p.partition_ref = ? AND p.status IN (1, 2, 3) AND COALESCE(b.status, 0) NOT IN (4, 5, 6)
ORDER BY p.claim_position IS NULL, p.claim_position, p.first_position"""
_HAS_PARTITIONS = (
    "EXISTS (SELECT 1 FROM penstock_build_partition p WHERE p.build_request_id = penstock_build.build_request_id)"
)
_FIRST_OPEN = (
    "SELECT min(first_position) FROM penstock_build "
    "WHERE first_position <= ? AND (last_position > ? OR (status NOT IN (0, 4, 5, 6) AND updated_at >= ?))"
)


def events_of_build(log: EventLog, build_request_id: str, *, strict: bool = False) -> list[Entry]:
    """Everything that happened in a build, in log order."""
    return list(map(to_entry, log.select(_OF_BUILD, (build_request_id,), strict=strict)))


def events_of_partition(log: EventLog, partition_ref: str, *, strict: bool = False) -> list[Entry]:
    """Everything that names a partition, in log order."""
    return list(map(to_entry, log.select(_OF_PARTITION, (partition_ref,), strict=strict)))


def events_of_job_run(log: EventLog, job_run_id: str, *, strict: bool = False) -> list[Entry]:
    """Everything that names a job run, in log order."""
    return list(map(to_entry, log.select(_OF_JOB_RUN, (job_run_id,), strict=strict)))


def events_between(
    log: EventLog, since: int | None, until: int | None, limit: int | None = None, *, strict: bool = False
) -> list[Entry]:
    """Events with a timestamp from `since` (inclusive) to `until` (exclusive), in log order."""
    return log.read(filter=Filter(since=since, until=until), limit=limit, strict=strict)


def build_state(log: EventLog, build_request_id: str, *, strict: bool = False) -> BuildState | None:
    """The state of a build request."""
    rows = log.select(f"{_BUILD} WHERE build_request_id = ?", (build_request_id,), strict=strict)
    return _to_build(rows[0]) if rows else None


def find_builds(log: EventLog, start: str, *, limit: int = 2) -> list[str]:
    """The ids of build requests that start with this text, newest first."""
    sql = f"{_BUILD} WHERE substr(build_request_id, 1, {len(start):d}) = ? ORDER BY first_position DESC LIMIT ?"
    return [_to_build(row).build_request_id for row in log.select(sql, (start, limit), strict=True)]


def list_builds(
    log: EventLog,
    *,
    limit: int = DEFAULT_LIMIT,
    offset: int = 0,
    statuses: Sequence[BuildStatus] = (),
    strict: bool = False,
) -> BuildPage:
    """Build requests, newest first, of the given statuses or of all, and the total number."""
    where, values = _status_condition(statuses)
    sql = f"{_BUILD}{where} ORDER BY first_position DESC LIMIT ? OFFSET ?"
    rows = log.select(sql, (*values, limit, offset), strict=strict)
    total = log.select(f"SELECT count(*) FROM penstock_build{where}", values)[0][0]  # noqa: S608
    return BuildPage(tuple(map(_to_build, rows)), total)


def newest_planned_build(
    log: EventLog, statuses: Sequence[BuildStatus] = (), *, strict: bool = False
) -> BuildState | None:
    """The newest build request of these statuses that got as far as naming something to build."""
    where, values = _status_condition(statuses)
    sql = f"{_BUILD}{where}{' AND' if where else ' WHERE'} {_HAS_PARTITIONS} ORDER BY first_position DESC LIMIT 1"
    rows = log.select(sql, values, strict=strict)
    return _to_build(rows[0]) if rows else None


def unfinished_builds(log: EventLog, *, strict: bool = False) -> list[BuildState]:
    """Build requests that have not ended: running ones, and those whose process died; in log order.

    A build ends together with its job runs and partitions, so no other build has unfinished ones.
    """
    where, values = _status_condition(OPEN_BUILD)
    return list(map(_to_build, log.select(f"{_BUILD}{where} ORDER BY first_position", values, strict=strict)))


def quiet_position(log: EventLog, *, alive_since: int = 0, strict: bool = False) -> Position:
    """The newest position at which no build was open: every claim before it has ended.

    A build without an end whose last event is older than `alive_since`, in nanoseconds, counts as ended with that event:
    otherwise one that was abandoned years ago would make every reader read everything since.

    A build counts as open from its first event to its last, so the events after this position say everything about the builds
    that were open at any time since.
    """
    position = log.head(strict=strict)
    while (first := log.select(_FIRST_OPEN, (position, position, alive_since))[0][0]) is not None:
        position = Position(first - 1)
    return position


def partition_state(log: EventLog, partition_ref: str, *, strict: bool = False) -> PartitionState | None:
    """The latest status of a partition."""
    rows = log.select(f"{_PARTITION} WHERE partition_ref = ?", (partition_ref,), strict=strict)
    return _to_partition(rows[0]) if rows else None


def list_partitions(
    log: EventLog,
    *,
    limit: int = DEFAULT_LIMIT,
    offset: int = 0,
    statuses: Sequence[PartitionStatus] = (),
    strict: bool = False,
) -> list[PartitionState]:
    """Partitions, the most recently changed first."""
    where, values = _status_condition(statuses)
    sql = f"{_PARTITION}{where} ORDER BY last_position DESC LIMIT ? OFFSET ?"
    return list(map(_to_partition, log.select(sql, (*values, limit, offset), strict=strict)))


def active_builds(log: EventLog, partition_ref: str, *, strict: bool = False) -> list[ActiveBuild]:
    """Builds that are building a partition or are about to, the first claim first; not those that delegated it."""
    return list(map(_to_active, log.select(_ACTIVE, (partition_ref,), strict=strict)))


def build_that_made(log: EventLog, partition_ref: str, *, strict: bool = False) -> str | None:
    """The build request that built an available partition; None when it is not available."""
    sql = "SELECT available_build_request_id FROM penstock_partition WHERE partition_ref = ?"
    rows = log.select(sql, (partition_ref,), strict=strict)
    return rows[0][0] if rows else None


def job_state(log: EventLog, job_run_id: str, *, strict: bool = False) -> JobState | None:
    """The state of a job run."""
    rows = log.select(f"{_JOB} WHERE job_run_id = ?", (job_run_id,), strict=strict)
    return _to_job(rows[0]) if rows else None


def find_jobs(log: EventLog, start: str, *, limit: int = 2) -> list[str]:
    """The ids of job runs that start with this text, newest first."""
    sql = f"{_JOB} WHERE substr(job_run_id, 1, {len(start):d}) = ? ORDER BY first_position DESC LIMIT ?"
    return [_to_job(row).job_run_id for row in log.select(sql, (start, limit), strict=True)]


def list_jobs(
    log: EventLog,
    *,
    limit: int = DEFAULT_LIMIT,
    offset: int = 0,
    build_request_id: str | None = None,
    statuses: Sequence[JobStatus] = (),
    strict: bool = False,
) -> list[JobState]:
    """Job runs, newest first, of one build or of all."""
    where, values = _status_condition(statuses)
    if build_request_id is not None:
        where += f"{' AND' if where else ' WHERE'} build_request_id = ?"
        values.append(build_request_id)
    sql = f"{_JOB}{where} ORDER BY first_position DESC LIMIT ? OFFSET ?"
    return list(map(_to_job, log.select(sql, (*values, limit, offset), strict=strict)))


def activity(log: EventLog, *, recent: int = 10, strict: bool = False) -> Activity:
    """A summary: builds, partitions and job runs by status, and the latest changes."""
    builds = _counts(log, "penstock_build", BuildStatus, strict=strict)
    active = sum(count for name, count in builds.items() if not BuildStatus[name].is_final)
    invalidated = "SELECT count(*) FROM penstock_partition WHERE invalidated_reason IS NOT NULL"
    return Activity(
        events=log.select("SELECT count(*) FROM penstock_event")[0][0],
        builds=builds,
        partitions=_counts(log, "penstock_partition", PartitionStatus),
        jobs=_counts(log, "penstock_job", JobStatus),
        active_builds=active,
        invalidated_partitions=log.select(invalidated)[0][0],
        recent_builds=list_builds(log, limit=recent).builds,
        recent_partitions=tuple(list_partitions(log, limit=recent)),
    )


def _status_condition(statuses: Sequence[int]) -> tuple[str, list[object]]:
    if not statuses:
        return "", []
    return f" WHERE status IN ({', '.join('?' * len(statuses))})", [int(status) for status in statuses]


def _counts(
    log: EventLog,
    table: str,
    kind: type[Status],
    *,
    strict: bool = False,
) -> dict[str, int]:
    rows = log.select(f"SELECT status, count(*) FROM {table} GROUP BY status ORDER BY status", (), strict=strict)  # noqa: S608
    counts: dict[str, int] = {}
    for code, count in rows:
        name = to_status(kind, code).name
        counts[name] = counts.get(name, 0) + count
    return counts


_ActiveDraft, _BuildDraft, _PartitionDraft, _JobDraft = map(
    draft_of, (ActiveBuild, BuildState, PartitionState, JobState)
)


def _to_active(row: Row) -> Any:
    draft = _ActiveDraft()
    draft.build_request_id, build, partition, draft.job_run_id, claimed = row
    draft.build_status, draft.partition_status, draft.claimed = BUILD_OF[build], PARTITION_OF[partition], bool(claimed)
    draft.__class__ = ActiveBuild
    return draft


def _to_build(row: Row) -> Any:
    draft = _BuildDraft()
    draft.build_request_id, status, refs, draft.message, draft.created_at, draft.updated_at, draft.cancel_reason = row
    draft.status, draft.requested_partitions = BUILD_OF[status], tuple(from_text(refs))
    draft.__class__ = BuildState
    return draft


def _to_partition(row: Row) -> Any:
    draft = _PartitionDraft()
    draft.partition_ref, status, draft.build_request_id, draft.job_run_id, draft.message, draft.updated_at = row[:6]
    draft.available_build_request_id, draft.available_at, draft.invalidated_reason = row[6:]
    draft.status = PARTITION_OF[status]
    draft.__class__ = PartitionState
    return draft


def _to_job(row: Row) -> Any:
    draft = _JobDraft()
    draft.job_run_id, draft.build_request_id, draft.job_label, refs, status = row[:5]
    draft.message, draft.created_at, draft.updated_at, draft.cancel_reason = row[5:]
    draft.target_partitions, draft.status = tuple(from_text(refs)), JOB_OF[status]
    draft.__class__ = JobState
    return draft
