"""What the events of one build add up to: the status of the build, its partitions and its job runs.

The recorder checks each new event against it, and replaying a log gives the same values: there is one fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.model.events import BuildCancel, BuildRequest, Delegation, Event, Job, Partition, Payload, TaskCancel
from penstock.model.status import BuildStatus, IllegalMoveError, JobStatus, PartitionStatus, check_move

ATTEMPT = "attempt"
"""The field of a job run's `config` that counts its attempts, from 1."""


@dataclass(frozen=True, slots=True)
class JobHistory:
    """What a job run came to."""

    label: str
    targets: tuple[str, ...]
    status: JobStatus
    attempts: int = 0
    """How often it was begun."""
    message: str = ""


@dataclass(slots=True)
class BuildHistory:
    """The sum of the events of one build."""

    build_request_id: str
    status: BuildStatus | None = None
    partitions: dict[str, PartitionStatus] = field(default_factory=dict)
    builders: dict[str, str] = field(default_factory=dict)
    """The job run that builds each partition."""
    delegated_to: dict[str, str] = field(default_factory=dict)
    """The build that produces a partition instead of this one."""
    jobs: dict[str, JobHistory] = field(default_factory=dict)
    cancel_reason: str | None = None
    cancelled_jobs: dict[str, str] = field(default_factory=dict)
    """The job runs that somebody asked to cancel, and why."""

    def check(self, payload: Payload) -> None:
        """Reject an event that cannot follow what happened so far."""
        if isinstance(payload, BuildRequest):
            check_move(f"build {self.build_request_id}", self.status, payload.status)
        elif isinstance(payload, Partition):
            ref = payload.partition_ref
            check_move(f"partition {ref}", self.partitions.get(ref), payload.status)
        elif isinstance(payload, Job):
            known = self.jobs.get(payload.job_run_id)
            check_move(f"job run {payload.job_run_id}", known.status if known else None, payload.status)

    def fold(self, event: Event) -> None:
        """Add an event; those of other builds change nothing, and any history is accepted."""
        if event.build_request_id != self.build_request_id:
            return
        payload = event.payload
        if isinstance(payload, BuildRequest):
            self.status = payload.status
        elif isinstance(payload, Partition):
            self.partitions[payload.partition_ref] = payload.status
            if payload.job_run_id is not None:
                self.builders[payload.partition_ref] = payload.job_run_id
        elif isinstance(payload, Job):
            self.jobs[payload.job_run_id] = _to_history(payload, self.jobs.get(payload.job_run_id))
        elif isinstance(payload, Delegation):
            self.delegated_to[payload.partition_ref] = payload.delegated_to_build_request_id
        elif isinstance(payload, BuildCancel):
            self.cancel_reason = payload.reason
        elif isinstance(payload, TaskCancel):
            self.cancelled_jobs[payload.job_run_id] = payload.reason


def replay(events: Iterable[Event]) -> dict[str, BuildHistory]:
    """What every build of a log came to, from its events alone."""
    builds: dict[str, BuildHistory] = {}
    for event in events:
        _build_of(builds, event).fold(event)
    return builds


def find_illegal_moves(events: Iterable[Event]) -> list[tuple[Event, str]]:
    """The events of a log that could not follow what came before them, and why; a recorder makes none."""
    builds: dict[str, BuildHistory] = {}
    found = []
    for event in events:
        history = _build_of(builds, event)
        try:
            history.check(event.payload)
        except IllegalMoveError as error:
            found.append((event, error.message))
        history.fold(event)
    return found


def _build_of(builds: dict[str, BuildHistory], event: Event) -> BuildHistory:
    build = event.build_request_id
    if build not in builds:
        builds[build] = BuildHistory(build)
    return builds[build]


def _to_history(job: Job, known: JobHistory | None) -> JobHistory:
    attempts = known.attempts if known else 0
    if job.status is JobStatus.RUNNING:
        said = job.config.get(ATTEMPT) if isinstance(job.config, Mapping) else None
        attempts = said if isinstance(said, int) else max(attempts, 1)
    return JobHistory(job.job_label, job.target_partitions, job.status, attempts, job.message)
