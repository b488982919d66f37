"""The states of builds, partitions and job runs as the log's queries return them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.status import BuildStatus, JobStatus, PartitionStatus


@dataclass(frozen=True, slots=True)
class BuildState:
    """The state of a build request; UNKNOWN when the log has only a cancel for it."""

    build_request_id: str
    status: BuildStatus
    requested_partitions: tuple[str, ...]
    message: str
    created_at: int
    updated_at: int
    cancel_reason: str | None


@dataclass(frozen=True, slots=True)
class BuildPage:
    """A page of build requests, newest first, and the total number."""

    builds: tuple[BuildState, ...]
    total: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of a partition: the latest status that any build gave it, and whether it can be used.

    It is available from AVAILABLE until an invalidation, whatever later builds do: a failed rebuild leaves the old data.
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
        """Whether the partition can be used."""
        return self.available_build_request_id is not None


@dataclass(frozen=True, slots=True)
class ActiveBuild:
    """A build that is building a partition or is about to. `claimed` says whether it holds a claim on it.

    In a list, the first claim in log order comes first: that build builds the partition, the others delegate to it.
    """

    build_request_id: str
    build_status: BuildStatus
    partition_status: PartitionStatus
    job_run_id: str | None
    claimed: bool


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of a job run."""

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
    """A summary of the log: counts by status, and the latest changes."""

    events: int
    builds: dict[str, int]
    partitions: dict[str, int]
    jobs: dict[str, int]
    active_builds: int
    invalidated_partitions: int
    recent_builds: tuple[BuildState, ...]
    recent_partitions: tuple[PartitionState, ...]
