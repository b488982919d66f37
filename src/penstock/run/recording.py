"""Writing what a pipeline run decides and does to the event log, as it happens, and how it ended, whatever ended it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.errors import PenstockError
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.faults import fault_point
from penstock.model.build_history import ATTEMPT
from penstock.model.clock import Clock
from penstock.model.events import Event
from penstock.model.plan import Item, Plan
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, LoadResult, Outcome, RunResult
from penstock.model.status import BuildStatus, IllegalMoveError, JobStatus, PartitionStatus

DIED = "the process of this run ended without finishing it: it was killed, or the machine stopped"
_NOT_BUILT = "the run ended without building it"


@dataclass(slots=True)
class RunRecorder:
    """The events of one pipeline run: the build request, its graph, and a job run per item with work.

    The last append ends everything that has no final status, so a build that has ended leaves nothing open. An event
    stays in `_unwritten` until its append has returned: an interrupt may have come in between, and the log takes an
    event only once.
    """

    log: EventLog
    events: BuildRecorder
    owner: str = ""
    """By which process, and under which lock."""
    _jobs: dict[str, str] = field(default_factory=dict)
    _refs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What each item builds."""
    _planned: set[str] = field(default_factory=set)
    """The items of the plan: others are batches that such an item is worked off in."""
    _ended_jobs: set[str] = field(default_factory=set)
    _reasons: dict[str, str] = field(default_factory=dict)
    """Why items were not started."""
    _unwritten: dict[str, Event] = field(default_factory=dict)
    _has_begun: bool = False
    _has_ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def received(self, message: str) -> None:
        """The pipeline run was requested and is being planned."""
        fault_point("run.before_events")

        def make() -> list[Event]:
            self._has_begun = True
            return [
                self.events.build(BuildStatus.RECEIVED, message=message),
                self.events.build(BuildStatus.PLANNING, message=self.owner),
            ]

        self._write(make)

    def planned(self, plan: Plan) -> None:
        """The plan is ready; work begins."""
        work = [item for item in plan.items if item.action.is_work]
        refs = [ref for item in work for ref in item.refs]
        self._planned = {item.id for item in work}
        graph = [
            {
                "dataset": item.id,
                "action": item.action.value,
                "reasons": [reason.code for reason in item.reasons],
                "inputs": list(item.upstream),
            }
            for item in plan.items
        ]
        self._write(
            lambda: [
                self.events.build(BuildStatus.ANALYSIS_COMPLETED, requested_partitions=refs),
                self.events.job_graph({"datasets": graph}),
                *(
                    self.events.invalidate(ref, _why(item))
                    for item in work
                    if item.effect.replaces_rows
                    for ref in item.refs
                ),
                *(self.events.partition(ref, PartitionStatus.REQUESTED) for ref in refs),
                self.events.build(BuildStatus.EXECUTING),
            ]
        )

    def started(self, item: Item) -> None:
        """Work on one item begins, or another attempt of it."""
        config = {"action": item.action.value, "reasons": [reason.code for reason in item.reasons]}

        def make() -> list[Event]:
            known = self._jobs.get(item.id)
            if known is not None and not self.events.history.jobs[known].status.is_final:
                attempt = self.events.history.jobs[known].attempts + 1
                return [self.events.job(known, JobStatus.RUNNING, config={ATTEMPT: attempt})]
            run, refs = self.events.new_job_run(), item.refs
            self._jobs[item.id], self._refs[item.id] = run, refs
            found = self.events.history.partitions
            new = [ref for ref in refs if ref not in found]
            # Partitions of a smaller batch are being built already; some may have been built when it was first tried.
            todo = [ref for ref in refs if found.get(ref) in {None, PartitionStatus.REQUESTED}]
            return [
                *(self.events.partition(ref, PartitionStatus.REQUESTED) for ref in new),
                self.events.job(
                    run, JobStatus.SCHEDULED, job_label=str(item.dataset), target_partitions=refs, config=config
                ),
                *(self.events.partition(ref, PartitionStatus.SCHEDULED, job_run_id=run) for ref in todo),
                self.events.job(run, JobStatus.RUNNING),
                *(self.events.partition(ref, PartitionStatus.BUILDING, job_run_id=run) for ref in todo),
            ]

        self._write(make)

    def ended(self, result: ItemResult) -> None:
        """Work on one item ended. What was cancelled or never started is recorded with the end of the run, in one append."""
        run = self._jobs.get(result.id)
        if run is None:
            self._reasons[result.id] = _why_not(result)
        elif result.outcome is not Outcome.CANCELLED:
            self._write(lambda: self._end_job(result, run))

    def _end_job(self, result: ItemResult, run: str) -> list[Event]:
        if run in self._ended_jobs:  # an interrupt came between this and the answer
            return []
        self._ended_jobs.add(run)
        if result.outcome is Outcome.ERROR:
            message = result.problem.message if result.problem else ""
            job, status = self.events.job(run, JobStatus.FAILED, message=message), PartitionStatus.FAILED
        elif result.outcome is Outcome.SKIP:
            message = "there is nothing to build it from yet"
            job, status = self.events.job(run, JobStatus.COMPLETED, message=message), PartitionStatus.FAILED
        else:
            message = ""
            job = self.events.job(run, JobStatus.COMPLETED, manifests=_what_was_written(result.load))
            status = PartitionStatus.AVAILABLE
        gone = [self.events.invalidate(result.id, "dropped")] if result.action.removes_table else []
        ends = [self.events.partition(ref, status, message=message, job_run_id=run) for ref in self._open_refs(result)]
        return [job, *ends, *gone]

    def _open_refs(self, result: ItemResult) -> list[str]:
        """What ends with an item: of a smaller batch that fails nothing does, because its partitions are searched further."""
        refs, known = self._refs[result.id], self.events.history.partitions
        if result.outcome is Outcome.ERROR and len(refs) > 1 and result.id not in self._planned:
            return []
        return [ref for ref in refs if not known[ref].is_final]

    def finished(self, result: RunResult) -> None:
        """The pipeline run is done."""
        fault_point("run.before_finish")
        self._end(BuildStatus.FAILED if result.has_failed else BuildStatus.COMPLETED, result.summary, _NOT_BUILT)

    def failed(self, message: str) -> None:
        """The pipeline run stopped before it was done."""
        self._end(BuildStatus.FAILED, message, message or _NOT_BUILT)

    def cancelled(self, result: RunResult, wait_seconds: float) -> None:
        """A signal stopped the pipeline run. Waits for a slow log no longer than this: the next run can record it too."""

        def record() -> None:
            with suppress(Exception):
                if self._has_ended:
                    self._write_rest()
                elif self._has_begun:
                    reason = result.stopped or _NOT_BUILT
                    self._end(BuildStatus.CANCELLED, f"{reason}: {result.summary}", reason)

        # Not in this thread: a second interrupt may come here, and the first one may have broken its connection.
        thread = threading.Thread(target=record, name="penstock-end", daemon=True)
        thread.start()
        thread.join(wait_seconds)

    def _end(self, status: BuildStatus, message: str, reason: str) -> None:
        with self._lock:
            made = self.events.end(status, message=message, reason=reason, reasons=self._reasons)
            self._has_ended = True
            self._unwritten |= {event.event_id: event for event in made}
        self._write_rest()

    def _write(self, make: Callable[[], list[Event]]) -> None:
        with self._lock:
            if self._has_ended:  # a thread that nobody waits for any more
                raise PenstockError("the pipeline run has ended")
            made = make()
            self._unwritten |= {event.event_id: event for event in made}
        self._append(made)

    def _write_rest(self) -> None:
        with self._lock:
            rest = list(self._unwritten.values())
        self._append(rest)

    def _append(self, events: list[Event]) -> None:
        self.log.append(events)
        with self._lock:
            for event in events:
                self._unwritten.pop(event.event_id, None)


def _what_was_written(load: LoadResult | None) -> list[dict[str, int]]:
    """What a job run says about the table that it wrote; `suppressed` only where tombstones kept rows out."""
    if load is None or load.version is None:
        return []
    return [
        {"version": load.version, "rows": load.rows, **({"suppressed": load.suppressed} if load.suppressed else {})}
    ]


def _why(item: Item) -> str:
    return ", ".join(reason.code for reason in item.reasons)


def _why_not(result: ItemResult) -> str:
    """Why an item was not started."""
    if result.problem is not None:
        return result.problem.message
    return "; ".join(reason.text for reason in result.reasons) or _NOT_BUILT


def close_dead_builds(log: EventLog, clock: Clock, build_request_ids: Iterable[str]) -> None:
    """Record that builds whose process died have failed, with their job runs and partitions, so that nothing waits for them."""
    for build_request_id in build_request_ids:
        state = projections.build_state(log, build_request_id)
        if state is None or state.status.is_final:
            continue
        recorder = BuildRecorder(clock, build_request_id)
        recorder.resume(entry.event for entry in projections.events_of_build(log, build_request_id))
        with suppress(IllegalMoveError):  # events that this version cannot read are left to the one that can
            log.append(recorder.end(BuildStatus.FAILED, message=DIED, reason=DIED))
