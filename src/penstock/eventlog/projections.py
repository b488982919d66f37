"""What people ask the log, answered the same on every backend: builds, partitions, job runs, activity.

Each function takes an open log and returns values; `strict=True` asks for everything that any writer was told is
written. Lists are in log order or newest first as said, never by the clock, so equal timestamps make no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.eventlog.codec import Status, from_text, to_status
from penstock.eventlog.contract import Entry, EventLog, Filter, Row
from penstock.eventlog.fold import SELECT_EVENTS, to_entry
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

DEFAULT_LIMIT = 50


@dataclass(frozen=True, slots=True)
class BuildState:
    """Where a build request stands; UNKNOWN when the log has only a cancel for it."""

    build_request_id: str
    status: BuildStatus
    requested_partitions: tuple[str, ...]
    message: str
    created_at: int
    updated_at: int
    cancel_reason: str | None


@dataclass(frozen=True, slots=True)
class BuildPage:
    """Some build requests, newest first, and how many there are in all."""

    builds: tuple[BuildState, ...]
    total: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Where a partition stands: the latest status that any build gave it, and whether it may be used.

    It is available from AVAILABLE until an invalidation, whatever later builds try: a failed rebuild leaves old data.
    """

    partition_ref: str
    status: PartitionStatus
    build_request_id: str
    job_run_id: str | None
    message: str
    updated_at: int
    available_build_request_id: str | None
    available_at: int | None
    invalidated_reason: str | None

    @property
    def is_available(self) -> bool:
        """The partition may be used."""
        return self.available_build_request_id is not None


@dataclass(frozen=True, slots=True)
class ActiveBuild:
    """A build that is making a partition or is about to. `claimed` tells whether it holds a claim on it.

    A list of these has the first claim in log order first: that build makes the partition, the others delegate to it.
    """

    build_request_id: str
    build_status: BuildStatus
    partition_status: PartitionStatus
    job_run_id: str | None
    claimed: bool


@dataclass(frozen=True, slots=True)
class JobState:
    """Where a job run stands."""

    job_run_id: str
    build_request_id: str
    job_label: str
    target_partitions: tuple[str, ...]
    status: JobStatus
    message: str
    created_at: int
    updated_at: int
    cancel_reason: str | None


@dataclass(frozen=True, slots=True)
class Activity:
    """How busy the log is: counts by status, and what changed last."""

    events: int
    builds: dict[str, int]
    partitions: dict[str, int]
    jobs: dict[str, int]
    active_builds: int
    invalidated_partitions: int
    recent_builds: tuple[BuildState, ...]
    recent_partitions: tuple[PartitionState, ...]


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
    """Events with a timestamp from `since` (included) to `until` (not included), in log order."""
    return log.read(filter=Filter(since=since, until=until), limit=limit, strict=strict)


def build_state(log: EventLog, build_request_id: str, *, strict: bool = False) -> BuildState | None:
    """Where a build request stands."""
    rows = log.select(f"{_BUILD} WHERE build_request_id = ?", (build_request_id,), strict=strict)
    return _to_build(rows[0]) if rows else None


def list_builds(
    log: EventLog,
    *,
    limit: int = DEFAULT_LIMIT,
    offset: int = 0,
    statuses: Sequence[BuildStatus] = (),
    strict: bool = False,
) -> BuildPage:
    """Build requests, newest first, of the given statuses or of all, and how many there are in all."""
    where, values = _status_condition(statuses)
    sql = f"{_BUILD}{where} ORDER BY first_position DESC LIMIT ? OFFSET ?"
    rows = log.select(sql, (*values, limit, offset), strict=strict)
    total = log.select(f"SELECT count(*) FROM penstock_build{where}", values)[0][0]  # noqa: S608
    return BuildPage(tuple(map(_to_build, rows)), total)


def partition_state(log: EventLog, partition_ref: str, *, strict: bool = False) -> PartitionState | None:
    """The latest status of a partition."""
    rows = log.select(f"{_PARTITION} WHERE partition_ref = ?", (partition_ref,), strict=strict)
    return _to_partition(rows[0]) if rows else None


def list_partitions(
    log: EventLog, *, limit: int = DEFAULT_LIMIT, statuses: Sequence[PartitionStatus] = (), strict: bool = False
) -> list[PartitionState]:
    """Partitions, the one that changed last first."""
    where, values = _status_condition(statuses)
    rows = log.select(f"{_PARTITION}{where} ORDER BY last_position DESC LIMIT ?", (*values, limit), strict=strict)
    return list(map(_to_partition, rows))


def active_builds(log: EventLog, partition_ref: str, *, strict: bool = False) -> list[ActiveBuild]:
    """Builds that are making a partition or are about to, the first claim first; without those that delegated it."""
    return [
        ActiveBuild(row[0], to_status(BuildStatus, row[1]), to_status(PartitionStatus, row[2]), row[3], bool(row[4]))
        for row in log.select(_ACTIVE, (partition_ref,), strict=strict)
    ]


def build_that_made(log: EventLog, partition_ref: str, *, strict: bool = False) -> str | None:
    """The build request that made a partition which is available; None when it is not available."""
    sql = "SELECT available_build_request_id FROM penstock_partition WHERE partition_ref = ?"
    rows = log.select(sql, (partition_ref,), strict=strict)
    return rows[0][0] if rows else None


def job_state(log: EventLog, job_run_id: str, *, strict: bool = False) -> JobState | None:
    """Where a job run stands."""
    rows = log.select(f"{_JOB} WHERE job_run_id = ?", (job_run_id,), strict=strict)
    return _to_job(rows[0]) if rows else None


def list_jobs(
    log: EventLog,
    *,
    limit: int = DEFAULT_LIMIT,
    build_request_id: str | None = None,
    statuses: Sequence[JobStatus] = (),
    strict: bool = False,
) -> list[JobState]:
    """Job runs, newest first, of one build or of all."""
    where, values = _status_condition(statuses)
    if build_request_id is not None:
        where += f"{' AND' if where else ' WHERE'} build_request_id = ?"
        values.append(build_request_id)
    rows = log.select(f"{_JOB}{where} ORDER BY first_position DESC LIMIT ?", (*values, limit), strict=strict)
    return list(map(_to_job, rows))


def activity(log: EventLog, *, recent: int = 10, strict: bool = False) -> Activity:
    """A summary: how many builds, partitions and job runs stand where, and what changed last."""
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


def _to_build(row: Row) -> BuildState:
    return BuildState(row[0], to_status(BuildStatus, row[1]), tuple(from_text(row[2])), *row[3:])


def _to_partition(row: Row) -> PartitionState:
    return PartitionState(row[0], to_status(PartitionStatus, row[1]), *row[2:])


def _to_job(row: Row) -> JobState:
    return JobState(row[0], row[1], row[2], tuple(from_text(row[3])), to_status(JobStatus, row[4]), *row[5:])
