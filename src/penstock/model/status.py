"""Statuses of builds, partitions and job runs: a code, a name, and one table of which transitions are legal.

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
        """Whether a build may end with it; a delegated partition may still come back to the build."""
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

Status = TypeVar("Status", BuildStatus, PartitionStatus, JobStatus)
AnyStatus = BuildStatus | PartitionStatus | JobStatus

MOVES: dict[type[AnyStatus], dict[AnyStatus | None, tuple[AnyStatus, ...]]] = {
    BuildStatus: {
        None: (BuildStatus.RECEIVED,),
        BuildStatus.RECEIVED: (BuildStatus.PLANNING, *_STOPPED),
        BuildStatus.PLANNING: (BuildStatus.ANALYSIS_COMPLETED, *_STOPPED),
        BuildStatus.ANALYSIS_COMPLETED: (BuildStatus.EXECUTING, *_STOPPED),
        BuildStatus.EXECUTING: (BuildStatus.EXECUTING, BuildStatus.COMPLETED, *_STOPPED),
    },
    PartitionStatus: {
        None: (PartitionStatus.REQUESTED,),
        PartitionStatus.REQUESTED: (PartitionStatus.SCHEDULED, PartitionStatus.DELEGATED, PartitionStatus.FAILED),
        PartitionStatus.SCHEDULED: (PartitionStatus.BUILDING, PartitionStatus.DELEGATED, PartitionStatus.FAILED),
        PartitionStatus.BUILDING: (PartitionStatus.AVAILABLE, PartitionStatus.FAILED, PartitionStatus.SCHEDULED),
        PartitionStatus.DELEGATED: (PartitionStatus.SCHEDULED, PartitionStatus.FAILED),
    },
    JobStatus: {
        None: (JobStatus.SCHEDULED,),
        JobStatus.SCHEDULED: (JobStatus.RUNNING, JobStatus.SKIPPED, JobStatus.CANCELLED),
        JobStatus.RUNNING: (JobStatus.RUNNING, JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED),
    },
}
"""What may follow a status; None stands for no status yet, and a status that is not listed is followed by nothing.

EXECUTING and RUNNING again are heartbeats; RUNNING also begins another attempt. A partition is SCHEDULED again after BUILDING
when its batch failed and it goes into a smaller one, and after DELEGATED when the other build has died or failed.
"""

OPEN_BUILD = tuple(status for status in BuildStatus if status.value and not status.is_final)
"""The statuses that a final one must follow. UNKNOWN is none of them: only the version that wrote it knows what it means."""
OPEN_PARTITION = tuple(status for status in PartitionStatus if status.value and not status.is_final)
OPEN_JOB = tuple(status for status in JobStatus if status.value and not status.is_final)


class IllegalMoveError(EventLogError):
    """A build, partition or job run cannot go from its current status to the requested one."""

    code = "illegal_move"


def check_move(subject: str, before: Status | None, after: Status) -> None:
    """Reject a status that cannot follow the one before; `before` is None when there is none yet."""
    legal = MOVES[type(after)].get(before, ())
    if after in legal:
        return
    where = f"is {before.name}" if before is not None else "has no status yet"
    hint = f"from here it can become {', '.join(s.name for s in legal)}" if legal else "that status is final"
    raise IllegalMoveError(f"{subject} {where} and cannot become {after.name}", hint=hint)
