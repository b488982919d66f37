"""Statuses of builds, partitions and job runs: a code, a name, and which transitions are legal.

The code is what is stored and never changes its meaning; the name is stored beside it for people who query the log.
Transitions are checked when an event is emitted; readers of a history accept any.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from penstock.errors import EventLogError


class BuildStatus(IntEnum):
    """The status of a build request. UNKNOWN is never written: it is how an older reader shows a newer code."""

    UNKNOWN = 0
    RECEIVED = 1
    PLANNING = 2
    EXECUTING = 3
    COMPLETED = 4
    FAILED = 5
    CANCELLED = 6
    ANALYSIS_COMPLETED = 7

    @property
    def is_final(self) -> bool:
        """Whether the status is final."""
        return self in FINAL_BUILD


class PartitionStatus(IntEnum):
    """The status of a partition within a build."""

    UNKNOWN = 0
    REQUESTED = 1
    SCHEDULED = 2
    BUILDING = 3
    AVAILABLE = 4
    FAILED = 5
    DELEGATED = 6

    @property
    def is_final(self) -> bool:
        """Whether the status is final within the same build."""
        return self in FINAL_PARTITION


class JobStatus(IntEnum):
    """The status of a job run."""

    UNKNOWN = 0
    SCHEDULED = 1
    RUNNING = 2
    COMPLETED = 3
    FAILED = 4
    CANCELLED = 5
    SKIPPED = 6

    @property
    def is_final(self) -> bool:
        """Whether the status is final."""
        return self in FINAL_JOB


FINAL_BUILD = frozenset({BuildStatus.COMPLETED, BuildStatus.FAILED, BuildStatus.CANCELLED})
FINAL_PARTITION = frozenset({PartitionStatus.AVAILABLE, PartitionStatus.FAILED, PartitionStatus.DELEGATED})
FINAL_JOB = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.SKIPPED})

_STOPPED = (BuildStatus.FAILED, BuildStatus.CANCELLED)

BUILD_MOVES: dict[BuildStatus | None, tuple[BuildStatus, ...]] = {
    None: (BuildStatus.RECEIVED,),
    BuildStatus.RECEIVED: (BuildStatus.PLANNING, *_STOPPED),
    BuildStatus.PLANNING: (BuildStatus.ANALYSIS_COMPLETED, *_STOPPED),
    BuildStatus.ANALYSIS_COMPLETED: (BuildStatus.EXECUTING, *_STOPPED),
    BuildStatus.EXECUTING: (BuildStatus.COMPLETED, *_STOPPED),
}

PARTITION_MOVES: dict[PartitionStatus | None, tuple[PartitionStatus, ...]] = {
    None: (PartitionStatus.REQUESTED,),
    PartitionStatus.REQUESTED: (PartitionStatus.SCHEDULED, PartitionStatus.DELEGATED, PartitionStatus.FAILED),
    PartitionStatus.SCHEDULED: (PartitionStatus.BUILDING, PartitionStatus.DELEGATED, PartitionStatus.FAILED),
    PartitionStatus.BUILDING: (PartitionStatus.AVAILABLE, PartitionStatus.FAILED),
}

JOB_MOVES: dict[JobStatus | None, tuple[JobStatus, ...]] = {
    None: (JobStatus.SCHEDULED,),
    JobStatus.SCHEDULED: (JobStatus.RUNNING, JobStatus.SKIPPED, JobStatus.CANCELLED),
    JobStatus.RUNNING: (JobStatus.RUNNING, JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED),
}

OPEN_BUILD = tuple(status for status in BuildStatus if status.value and not status.is_final)
"""The statuses that a final one must follow. UNKNOWN is none of them: only the version that wrote it knows what it means."""
OPEN_PARTITION = tuple(status for status in PartitionStatus if status.value and not status.is_final)
OPEN_JOB = tuple(status for status in JobStatus if status.value and not status.is_final)

Status = TypeVar("Status", BuildStatus, PartitionStatus, JobStatus)


class IllegalMoveError(EventLogError):
    """A build, partition or job run cannot go from its current status to the requested one."""

    code = "illegal_move"


def check_build_move(build_request_id: str, before: BuildStatus | None, after: BuildStatus) -> None:
    """Reject an illegal transition of a build; `before` is None when it has no status yet."""
    _check(f"build {build_request_id}", before, after, BUILD_MOVES)


def check_partition_move(partition_ref: str, before: PartitionStatus | None, after: PartitionStatus) -> None:
    """Reject an illegal transition of a partition within one build."""
    _check(f"partition {partition_ref}", before, after, PARTITION_MOVES)


def check_job_move(job_run_id: str, before: JobStatus | None, after: JobStatus) -> None:
    """Reject an illegal transition of a job run; RUNNING after RUNNING is a heartbeat."""
    _check(f"job run {job_run_id}", before, after, JOB_MOVES)


def _check(subject: str, before: Status | None, after: Status, moves: dict[Status | None, tuple[Status, ...]]) -> None:
    legal = moves.get(before, ())
    if after in legal:
        return
    where = f"is {before.name}" if before is not None else "has no status yet"
    hint = f"from here it can become {', '.join(s.name for s in legal)}" if legal else "that status is final"
    raise IllegalMoveError(f"{subject} {where} and cannot become {after.name}", hint=hint)
