"""Events of the build log as values: who, when, and exactly one payload.

An event says what happened; it never changes. `event_type` follows from the payload, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None


class EventType(StrEnum):
    """The kinds of events; the value is the name of the payload in JSON and in the Delta table."""

    BUILD_REQUEST = "build_request"
    PARTITION = "partition"
    JOB = "job"
    DELEGATION = "delegation"
    JOB_GRAPH = "job_graph"
    PARTITION_INVALIDATION = "partition_invalidation"
    TASK_CANCEL = "task_cancel"
    BUILD_CANCEL = "build_cancel"


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """A build request came to a status."""

    event_type: ClassVar[EventType] = EventType.BUILD_REQUEST
    status: BuildStatus
    requested_partitions: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition came to a status within a build. SCHEDULED with a job run is a claim on the partition."""

    event_type: ClassVar[EventType] = EventType.PARTITION
    partition_ref: str
    status: PartitionStatus
    message: str = ""
    job_run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job run came to a status; `config` and `manifests` are JSON values: what ran, and what it wrote."""

    event_type: ClassVar[EventType] = EventType.JOB
    job_run_id: str
    job_label: str
    target_partitions: tuple[str, ...]
    status: JobStatus
    message: str = ""
    config: Json = None
    manifests: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Delegation:
    """This build waits for a partition that another build produces."""

    event_type: ClassVar[EventType] = EventType.DELEGATION
    partition_ref: str
    delegated_to_build_request_id: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class JobGraph:
    """What the build is going to run: the plan's graph as JSON."""

    event_type: ClassVar[EventType] = EventType.JOB_GRAPH
    job_graph: Json
    message: str = ""


@dataclass(frozen=True, slots=True)
class PartitionInvalidation:
    """A partition may not be used until it is AVAILABLE again."""

    event_type: ClassVar[EventType] = EventType.PARTITION_INVALIDATION
    partition_ref: str
    reason: str


@dataclass(frozen=True, slots=True)
class TaskCancel:
    """A user asked to cancel a job run."""

    event_type: ClassVar[EventType] = EventType.TASK_CANCEL
    job_run_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class BuildCancel:
    """A user asked to cancel a build."""

    event_type: ClassVar[EventType] = EventType.BUILD_CANCEL
    reason: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What a log gives for an event that this version cannot read. It is never written."""

    event_type: str
    """As stored; a newer version may have types that this one does not know."""
    reason: str


Payload = (
    BuildRequest
    | Partition
    | Job
    | Delegation
    | JobGraph
    | PartitionInvalidation
    | TaskCancel
    | BuildCancel
    | Unreadable
)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, at `timestamp` nanoseconds since 1970; events have the log's order, not the clock's."""

    event_id: str
    timestamp: int
    build_request_id: str
    payload: Payload

    @property
    def event_type(self) -> str:
        """The kind of this event: an `EventType`, unless the event cannot be read."""
        return self.payload.event_type
