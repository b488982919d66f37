"""Writing what a pipeline run decides and does to the event log, as it happens, and how it ended, whatever ended it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.errors import PenstockError
from penstock.eventlog import projections
from penstock.eventlog.contract import START, EventLog, Position
from penstock.faults import fault_point
from penstock.model.build_history import ATTEMPT
from penstock.model.events import Event
from penstock.model.plan import Action, Item, Plan
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, LoadResult, Outcome, RunResult
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus
from penstock.run.claims.book import RETRYABLE, table_of

_COMMITTED = "it was committed by a build whose process ended before it could say so"
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
    interrupted: tuple[str, ...] = ()
    """What builds whose process has died were building: if it needs nothing now, they had committed it."""
    is_claiming: bool = False
    """Whether items are claimed before they start, so that `claimed` says when one does."""
    is_taken_over: Callable[[], bool] = lambda: False
    """Whether another build has recorded the end of this one, because it gave no sign of life: then nothing follows it."""
    began_at: Position = START
    """The position in the log at which planning began."""
    _jobs: dict[str, str] = field(default_factory=dict)
    _refs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What each item builds."""
    _planned: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What the items of the plan build: other items are batches that such an item is worked off in."""
    _ended_jobs: set[str] = field(default_factory=set)
    _reasons: dict[str, str] = field(default_factory=dict)
    """Why partitions were not started."""
    _unwritten: dict[str, Event] = field(default_factory=dict)
    _has_begun: bool = False
    _has_ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def received(self, message: str) -> None:
        """The pipeline run was requested and is being planned."""
        fault_point("run.before_events")

        def make() -> list[Event]:
            self._has_begun = True
            is_new = self.events.history.status is None
            received = [self.events.build(BuildStatus.RECEIVED, message=message)] if is_new else []
            return [*received, self.events.build(BuildStatus.PLANNING, message=self.owner)]

        self.began_at = self._write(make)

    def submitted(self, message: str) -> None:
        """The pipeline run was requested; `received` follows when it begins."""
        self._write(lambda: [self.events.build(BuildStatus.RECEIVED, message=message)])

    def planned(self, plan: Plan) -> None:
        """The plan is ready; work begins."""
        work = [item for item in plan.items if item.action.is_work]
        refs = [ref for item in work for ref in item.refs]
        self._planned = {item.id: item.refs for item in work}
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
                *self._record_committed(plan),
            ]
        )

    def _record_committed(self, plan: Plan) -> list[Event]:
        """Commits of builds that died before they could record them: a job run that says so for each table."""
        planned = {str(item.dataset) for item in plan.items}
        busy = {ref for item in plan.items if item.action is not Action.NONE or item.problem for ref in item.refs}
        tables: dict[str, list[str]] = {}
        for ref in self.interrupted:
            table = table_of(ref)
            if table in planned and not busy & {ref, table}:
                tables.setdefault(table, []).append(ref)
        events: list[Event] = []
        for table, refs in tables.items():
            run = self.events.new_job_run()
            events += [self.events.partition(ref, PartitionStatus.REQUESTED) for ref in refs]
            events.append(self.events.job(run, JobStatus.SCHEDULED, job_label=table, target_partitions=refs))
            events += [self.events.partition(ref, PartitionStatus.SCHEDULED, job_run_id=run) for ref in refs]
            events.append(self.events.job(run, JobStatus.RUNNING))
            for status in (PartitionStatus.BUILDING, PartitionStatus.AVAILABLE):
                events += [self.events.partition(ref, status, job_run_id=run) for ref in refs]
            events.append(self.events.job(run, JobStatus.COMPLETED, message=_COMMITTED))
        return events

    def started(self, item: Item) -> None:
        """Work on one item begins, or another attempt of it."""
        config = {"action": item.action.value, "reasons": [reason.code for reason in item.reasons]}

        def make() -> list[Event]:
            known = self._jobs.get(item.id)
            if known is not None and not self.events.history.jobs[known].status.is_final:
                attempt = self.events.history.jobs[known].attempts + 1
                return [self.events.job(known, JobStatus.RUNNING, config={ATTEMPT: attempt})]
            if self.is_claiming and item.id in self._planned:
                return []
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

    def claimed(self, item_id: str, job_run_id: str, refs: tuple[str, ...], built: tuple[str, ...] = ()) -> None:
        """A job run that has claimed an item, or some of its partitions, begins to work on it; others have built some."""
        makers = self._find_makers(built)

        def make() -> list[Event]:
            self._jobs[item_id], self._refs[item_id] = job_run_id, refs
            return [
                *self._delegate(makers),
                self.events.job(job_run_id, JobStatus.RUNNING),
                *(self.events.partition(ref, PartitionStatus.BUILDING, job_run_id=job_run_id) for ref in refs),
            ]

        self._write(make)

    def skipped(self, job_run_id: str, refs: tuple[str, ...]) -> str:
        """A job run has claimed what needs nothing any more; gives the build that did it, if it is known."""
        makers = self._find_makers(refs)
        message = _describe_maker(makers[refs[0]])
        self._write(lambda: [self.events.job(job_run_id, JobStatus.SKIPPED, message=message), *self._delegate(makers)])
        return makers[refs[0]]

    def _find_makers(self, refs: tuple[str, ...]) -> dict[str, str]:
        return {ref: projections.build_that_made(self.log, ref, strict=True) or "" for ref in refs}

    def _delegate(self, makers: dict[str, str]) -> list[Event]:
        """What was claimed and needs nothing any more, by the builds that did it."""
        events: list[Event] = []
        for ref, maker in makers.items():
            events += [self.events.delegation(ref, maker)] if maker else []
            events.append(self.events.partition(ref, PartitionStatus.DELEGATED, message=_describe_maker(maker)))
        return events

    def failed_elsewhere(self, ref: str, message: str) -> None:
        """The build that something was delegated to has failed."""
        self._write(lambda: [self.events.partition(ref, PartitionStatus.FAILED, message=message)])

    def job_run_of(self, item_id: str) -> str | None:
        """The job run of an item; None before it has started."""
        return self._jobs.get(item_id)

    def item_of(self, job_run_id: str) -> str | None:
        """The item of a job run of this pipeline run."""
        return next((item for item, run in tuple(self._jobs.items()) if run == job_run_id), None)

    def ended(self, result: ItemResult) -> None:
        """Work on one item ended. What was cancelled or never started is recorded with the end of the run, in one append."""
        run = self._jobs.get(result.id)
        if run is None:
            self._reasons |= dict.fromkeys(self._planned.get(result.id, (result.id,)), _why_not(result))
        elif result.outcome is not Outcome.CANCELLED or result.is_cancel_requested:
            self._write(lambda: self._end_job(result, run))

    def _end_job(self, result: ItemResult, run: str) -> list[Event]:
        if run in self._ended_jobs:  # an interrupt came between this and the answer
            return []
        self._ended_jobs.add(run)
        message, status = "", PartitionStatus.FAILED
        if result.outcome is Outcome.ERROR:
            message = result.problem.message if result.problem else ""
            config = {RETRYABLE: True} if result.problem is not None and result.problem.is_retryable else None
            job = self.events.job(run, JobStatus.FAILED, message=message, config=config)
        elif result.outcome is Outcome.CANCELLED:
            message = _why_not(result)
            job = self.events.job(run, JobStatus.CANCELLED, message=message)
        elif result.outcome is Outcome.SKIP:
            message = "there is nothing to build it from yet"
            job = self.events.job(run, JobStatus.COMPLETED, message=message)
        else:
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

    def finished(self, result: RunResult, cancel_reason: str | None = None) -> None:
        """The pipeline run is done, or has ended because somebody cancelled it."""
        fault_point("run.before_finish")
        if cancel_reason is not None:
            self._end(BuildStatus.CANCELLED, f"{cancel_reason}: {result.summary}", cancel_reason)
        else:
            status = BuildStatus.FAILED if result.has_failed else BuildStatus.COMPLETED
            self._end(status, result.summary, _NOT_BUILT)

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
        is_taken_over = self.is_taken_over()
        with self._lock:
            if is_taken_over:
                self._has_ended = True
                self._unwritten.clear()
                return
            made = self.events.end(status, message=message, reason=reason, reasons=self._reasons)
            self._has_ended = True
            self._unwritten |= {event.event_id: event for event in made}
        self._write_rest()

    def _write(self, make: Callable[[], list[Event]]) -> Position:
        if self.is_taken_over():
            return START
        with self._lock:
            if self._has_ended:  # a thread that nobody waits for any more
                raise PenstockError("the pipeline run has ended")
            made = make()
            self._unwritten |= {event.event_id: event for event in made}
        return self._append(made)

    def _write_rest(self) -> None:
        with self._lock:
            rest = list(self._unwritten.values())
        self._append(rest)

    def _append(self, events: list[Event]) -> Position:
        position = self.log.append(events) if events else START
        with self._lock:
            for event in events:
                self._unwritten.pop(event.event_id, None)
        return position


def _describe_maker(maker: str) -> str:
    return f"build {maker} has built it" if maker else "it is up to date"


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
    return "; ".join(map(str, result.reasons)) or _NOT_BUILT
