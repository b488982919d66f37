"""How the engine makes events: a recorder per build request, which checks every transition before it returns the event.

    recorder = BuildRecorder(clock, build_request_id)
    log.append([recorder.build(BuildStatus.RECEIVED, requested_partitions=("sales.orders/day=1",))])
    run = recorder.new_job_run()
    log.append([
        recorder.job(run, JobStatus.SCHEDULED, job_label="staging.orders", target_partitions=refs),
        recorder.partition(ref, PartitionStatus.SCHEDULED, job_run_id=run),
    ])

It does no I/O: append what it returns, in the order it was made. One recorder may be shared by the threads of a build.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from penstock.model.build_history import BuildHistory
from penstock.model.clock import Clock, uuid7
from penstock.model.events import (
    BuildCancel,
    BuildRequest,
    Delegation,
    Event,
    Job,
    JobGraph,
    Json,
    Partition,
    PartitionInvalidation,
    Payload,
    TaskCancel,
)
from penstock.model.status import OPEN_JOB, OPEN_PARTITION, BuildStatus, JobStatus, PartitionStatus


class BuildRecorder:
    """Makes the events of one build request, and rejects illegal transitions of the build, a partition or a job run."""

    def __init__(self, clock: Clock, build_request_id: str, new_id: Callable[[Clock], str] = uuid7) -> None:
        self.build_request_id = build_request_id
        self._clock = clock
        self._new_id = new_id
        self._lock = threading.Lock()
        self.history = BuildHistory(build_request_id)
        """What has been recorded so far; only for reading."""
        self.last_event_id = ""

    def resume(self, events: Iterable[Event]) -> None:
        """Restore the state from earlier events of this build, for example after a restart; accepts any history."""
        with self._lock:
            for event in events:
                self.history.fold(event)

    def build(self, status: BuildStatus, *, requested_partitions: Iterable[str] = (), message: str = "") -> Event:
        """The build came to a status."""
        return self._make(BuildRequest(status, tuple(requested_partitions), message))

    def partition(
        self, partition_ref: str, status: PartitionStatus, *, job_run_id: str | None = None, message: str = ""
    ) -> Event:
        """A partition came to a status; SCHEDULED with a job run claims it."""
        return self._make(Partition(partition_ref, status, message, job_run_id))

    def new_job_run(self) -> str:
        """An id for a job run that is about to be scheduled."""
        return self._new_id(self._clock)

    def job(
        self,
        job_run_id: str,
        status: JobStatus,
        *,
        job_label: str | None = None,
        target_partitions: Iterable[str] | None = None,
        message: str = "",
        config: Json = None,
        manifests: Iterable[Json] = (),
    ) -> Event:
        """A job run came to a status; label and targets are given once, with SCHEDULED, and repeated from then on."""
        known = self.history.jobs.get(job_run_id)
        label = job_label if job_label is not None else known.label if known else ""
        targets = tuple(target_partitions) if target_partitions is not None else known.targets if known else ()
        return self._make(Job(job_run_id, label, targets, status, message, config, tuple(manifests)))

    def delegation(self, partition_ref: str, to_build_request_id: str, *, message: str = "") -> Event:
        """This build waits for the partition that another build produces."""
        return self._make(Delegation(partition_ref, to_build_request_id, message))

    def job_graph(self, graph: Json, *, message: str = "") -> Event:
        """What the build is going to run."""
        return self._make(JobGraph(graph, message))

    def invalidate(self, partition_ref: str, reason: str) -> Event:
        """The partition may not be used until it is AVAILABLE again."""
        return self._make(PartitionInvalidation(partition_ref, reason))

    def cancel_job(self, job_run_id: str, reason: str) -> Event:
        """Ask to cancel a job run."""
        return self._make(TaskCancel(job_run_id, reason))

    def cancel_build(self, reason: str) -> Event:
        """Ask to cancel the build."""
        return self._make(BuildCancel(reason))

    def other(self, build_request_id: str, events: Iterable[Event] = ()) -> BuildRecorder:
        """A recorder for another build, whose process cannot write any more, with what it has written."""
        recorder = BuildRecorder(self._clock, build_request_id, self._new_id)
        recorder.resume(events)
        return recorder

    def end(
        self,
        status: BuildStatus,
        *,
        message: str,
        reason: str,
        reasons: Mapping[str, str] | None = None,
        config: Json = None,
    ) -> list[Event]:
        """The build came to a final status; every job run and partition of it that has none ends too, and says why.

        `reasons` has the reasons of single partitions, `config` what job runs say besides. Job runs of a cancelled build are
        cancelled; otherwise they fail.
        """
        broken = JobStatus.CANCELLED if status is BuildStatus.CANCELLED else JobStatus.FAILED
        with self._lock:
            history = self.history
            history.check(BuildRequest(status))
            jobs = [
                Job(run, job.label, job.targets, _ended(job.status, broken), reason, config)
                for run, job in history.jobs.items()
                if job.status in OPEN_JOB
            ]
            partitions = [
                Partition(ref, PartitionStatus.FAILED, (reasons or {}).get(ref, reason), history.builders.get(ref))
                for ref, partition in history.partitions.items()
                if partition in OPEN_PARTITION
            ]
            ended: list[Payload] = [*jobs, *partitions, BuildRequest(status, (), message)]
            return [self._make_one(payload) for payload in ended]

    def _make(self, payload: Payload) -> Event:
        with self._lock:
            return self._make_one(payload)

    def _make_one(self, payload: Payload) -> Event:
        self.history.check(payload)
        event = Event(self._new_id(self._clock), self._clock.now_ns(), self.build_request_id, payload)
        self.history.fold(event)
        self.last_event_id = event.event_id
        return event


def _ended(status: JobStatus, broken: JobStatus) -> JobStatus:
    """How a job run ends with its build: what had not begun is cancelled."""
    return broken if status is JobStatus.RUNNING else JobStatus.CANCELLED


def standalone_event(clock: Clock, build_request_id: str, payload: Payload) -> Event:
    """An event outside a running build, such as a cancellation or an invalidation that a user asks for."""
    return Event(uuid7(clock), clock.now_ns(), build_request_id, payload)
