"""Writing what a run decides and does to the event log, as it happens."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.faults import fault_point
from penstock.model.clock import Clock
from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan, Plan
from penstock.model.recording import BuildRecorder
from penstock.model.results import DatasetResult, Outcome, RunResult
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus


@dataclass(slots=True)
class RunRecorder:
    """The events of one run: the build request, its graph, and a job run per dataset that was worked on."""

    log: EventLog
    events: BuildRecorder
    _jobs: dict[DatasetName, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def received(self, message: str) -> None:
        """The run was asked for and plans now."""
        fault_point("run.before_events")
        self.log.append(
            [self.events.build(BuildStatus.RECEIVED, message=message), self.events.build(BuildStatus.PLANNING)]
        )

    def planned(self, plan: Plan) -> None:
        """The plan is made; work begins."""
        work = [dataset for dataset in plan.datasets if dataset.action.is_work]
        graph = [
            {
                "dataset": str(dataset.name),
                "action": dataset.action.value,
                "reasons": [reason.code for reason in dataset.reasons],
                "inputs": [str(name) for name in dataset.inputs],
            }
            for dataset in plan.datasets
        ]
        self.log.append(
            [
                self.events.build(
                    BuildStatus.ANALYSIS_COMPLETED, requested_partitions=[str(dataset.name) for dataset in work]
                ),
                self.events.job_graph({"datasets": graph}),
                *(self.events.invalidate(str(d.name), _why(d)) for d in work if _is_invalidated(d)),
                *(self.events.partition(str(dataset.name), PartitionStatus.REQUESTED) for dataset in work),
                self.events.build(BuildStatus.EXECUTING),
            ]
        )

    def started(self, plan: DatasetPlan) -> None:
        """Work on one dataset begins."""
        reference = str(plan.name)
        run = self.events.new_job_run()
        with self._lock:
            self._jobs[plan.name] = run
        config = {"action": plan.action.value, "reasons": [reason.code for reason in plan.reasons]}
        self.log.append(
            [
                self.events.job(
                    run, JobStatus.SCHEDULED, job_label=reference, target_partitions=[reference], config=config
                ),
                self.events.partition(reference, PartitionStatus.SCHEDULED, job_run_id=run),
                self.events.job(run, JobStatus.RUNNING),
                self.events.partition(reference, PartitionStatus.BUILDING, job_run_id=run),
            ]
        )

    def ended(self, result: DatasetResult) -> None:
        """Work on one dataset ended; datasets without work leave no event."""
        run = self._jobs.get(result.name)
        if run is None:
            return
        reference = str(result.name)
        if result.outcome is Outcome.ERROR:
            message = result.problem.message if result.problem else ""
            job = self.events.job(run, JobStatus.FAILED, message=message)
            partition = self.events.partition(reference, PartitionStatus.FAILED, message=message, job_run_id=run)
        elif result.outcome is Outcome.SKIP:
            message = "there is nothing to make it of yet"
            job = self.events.job(run, JobStatus.COMPLETED, message=message)
            partition = self.events.partition(reference, PartitionStatus.FAILED, message=message, job_run_id=run)
        else:
            load = result.load
            manifests = [{"version": load.version, "rows": load.rows}] if load and load.version is not None else []
            job = self.events.job(run, JobStatus.COMPLETED, manifests=manifests)
            partition = self.events.partition(reference, PartitionStatus.AVAILABLE, job_run_id=run)
        gone = [self.events.invalidate(reference, "dropped")] if result.action is Action.DROP else []
        self.log.append([job, partition, *gone])

    def finished(self, result: RunResult) -> None:
        """The run is over."""
        fault_point("run.before_finish")
        status = BuildStatus.FAILED if result.has_failed else BuildStatus.COMPLETED
        self.log.append([self.events.build(status, message=result.summary)])

    def failed(self, message: str) -> None:
        """The run stopped before it could finish."""
        self.log.append([self.events.build(BuildStatus.FAILED, message=message)])


def _is_invalidated(dataset: DatasetPlan) -> bool:
    """Whether what the table holds now is known to be not what it should be; in place, what is there stays right."""
    return dataset.state.exists and dataset.action not in {Action.APPEND, Action.EVOLVE, Action.APPLY}


def _why(dataset: DatasetPlan) -> str:
    return ", ".join(reason.code for reason in dataset.reasons)


def close_dead_builds(log: EventLog, clock: Clock, build_request_ids: Iterable[str]) -> None:
    """Say of builds whose process died that they failed, so that nobody waits for them."""
    for build_request_id in build_request_ids:
        state = projections.build_state(log, build_request_id)
        if state is None or state.status.is_final:
            continue
        recorder = BuildRecorder(clock, build_request_id)
        recorder.resume(entry.event for entry in projections.events_of_build(log, build_request_id))
        log.append([recorder.build(BuildStatus.FAILED, message="the process ended without finishing the run")])
