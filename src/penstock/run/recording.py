"""Writing what a pipeline run decides and does to the event log, as it happens."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.faults import fault_point
from penstock.model.clock import Clock
from penstock.model.plan import Item, Plan
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, Outcome, RunResult
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus


@dataclass(slots=True)
class RunRecorder:
    """The events of one pipeline run: the build request, its graph, and a job run per item with work."""

    log: EventLog
    events: BuildRecorder
    _jobs: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def received(self, message: str) -> None:
        """The pipeline run was requested and is being planned."""
        fault_point("run.before_events")
        self.log.append(
            [self.events.build(BuildStatus.RECEIVED, message=message), self.events.build(BuildStatus.PLANNING)]
        )

    def planned(self, plan: Plan) -> None:
        """The plan is ready; work begins."""
        work = [item for item in plan.items if item.action.is_work]
        graph = [
            {
                "dataset": item.id,
                "action": item.action.value,
                "reasons": [reason.code for reason in item.reasons],
                "inputs": list(item.upstream),
            }
            for item in plan.items
        ]
        self.log.append(
            [
                self.events.build(BuildStatus.ANALYSIS_COMPLETED, requested_partitions=[item.id for item in work]),
                self.events.job_graph({"datasets": graph}),
                *(self.events.invalidate(item.id, _why(item)) for item in work if item.effect.replaces_rows),
                *(self.events.partition(item.id, PartitionStatus.REQUESTED) for item in work),
                self.events.build(BuildStatus.EXECUTING),
            ]
        )

    def started(self, item: Item) -> None:
        """Work on one item begins."""
        run = self.events.new_job_run()
        with self._lock:
            self._jobs[item.id] = run
        config = {"action": item.action.value, "reasons": [reason.code for reason in item.reasons]}
        self.log.append(
            [
                self.events.job(
                    run,
                    JobStatus.SCHEDULED,
                    job_label=str(item.dataset),
                    target_partitions=[item.id],
                    config=config,
                ),
                self.events.partition(item.id, PartitionStatus.SCHEDULED, job_run_id=run),
                self.events.job(run, JobStatus.RUNNING),
                self.events.partition(item.id, PartitionStatus.BUILDING, job_run_id=run),
            ]
        )

    def ended(self, result: ItemResult) -> None:
        """Work on one item ended; items without work leave no event."""
        run = self._jobs.get(result.id)
        if run is None:
            return
        if result.outcome is Outcome.ERROR:
            message = result.problem.message if result.problem else ""
            job = self.events.job(run, JobStatus.FAILED, message=message)
            partition = self.events.partition(result.id, PartitionStatus.FAILED, message=message, job_run_id=run)
        elif result.outcome is Outcome.SKIP:
            message = "there is nothing to build it from yet"
            job = self.events.job(run, JobStatus.COMPLETED, message=message)
            partition = self.events.partition(result.id, PartitionStatus.FAILED, message=message, job_run_id=run)
        else:
            load = result.load
            manifests = [{"version": load.version, "rows": load.rows}] if load and load.version is not None else []
            job = self.events.job(run, JobStatus.COMPLETED, manifests=manifests)
            partition = self.events.partition(result.id, PartitionStatus.AVAILABLE, job_run_id=run)
        gone = [self.events.invalidate(result.id, "dropped")] if result.action.removes_table else []
        self.log.append([job, partition, *gone])

    def finished(self, result: RunResult) -> None:
        """The pipeline run is done."""
        fault_point("run.before_finish")
        status = BuildStatus.FAILED if result.has_failed else BuildStatus.COMPLETED
        self.log.append([self.events.build(status, message=result.summary)])

    def failed(self, message: str) -> None:
        """The pipeline run stopped before it was done."""
        self.log.append([self.events.build(BuildStatus.FAILED, message=message)])


def _why(item: Item) -> str:
    return ", ".join(reason.code for reason in item.reasons)


def close_dead_builds(log: EventLog, clock: Clock, build_request_ids: Iterable[str]) -> None:
    """Record builds whose process died as failed, so that nothing waits for them."""
    for build_request_id in build_request_ids:
        state = projections.build_state(log, build_request_id)
        if state is None or state.status.is_final:
            continue
        recorder = BuildRecorder(clock, build_request_id)
        recorder.resume(entry.event for entry in projections.events_of_build(log, build_request_id))
        log.append([recorder.build(BuildStatus.FAILED, message="the process ended without finishing the run")])
