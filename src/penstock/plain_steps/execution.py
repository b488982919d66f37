"""Functions as work items: run by the scheduler, recorded as one build request, and not run again once they are recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from penstock.definitions.user_code import describe
from penstock.errors import EventLogError, StoppedError, UserCodeError
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import Clock, uuid7
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Item, Plan, Problem, Reason, WorkItem
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, LoadResult, RunResult
from penstock.run.cancelling import CancelWatch
from penstock.run.dispatch import Limits
from penstock.run.listeners import RunListener
from penstock.run.recording import RunRecorder
from penstock.run.scheduler import Scheduler
from penstock.run.stopping import RECORD_SECONDS, to_stopped_result

KIND = "step"


@dataclass(frozen=True, slots=True)
class Call:
    """A function to call, under the name by which the event log knows it."""

    dataset: DatasetName
    func: Callable[[], object]
    partition: str | None = None
    upstream: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    is_parallel: bool = False

    def to_item(self, log: EventLog) -> Item:
        """The call as a work item; without work if it has a partition that the log records as done."""
        item: Item = self._to_item(Action.RECOMPUTE)
        state = None if self.partition is None else projections.partition_state(log, item.id, strict=True)
        if state is None or not state.is_available:
            return item
        return self._to_item(Action.NONE, Reason("up_to_date", f"done in build {state.available_build_request_id}"))

    def _to_item(self, action: Action, *reasons: Reason) -> Item:
        return WorkItem(
            self.dataset,
            KIND,
            action,
            reasons,
            self.func,
            partition=self.partition,
            upstream=self.upstream,
            is_parallel=self.is_parallel,
        )


@dataclass(slots=True)
class _Errors:
    """The last exception of each call that raised one, by its id."""

    found: dict[str, BaseException] = field(default_factory=dict)

    def call(self, item: Item) -> LoadResult:
        """Call the function of an item; an exception becomes an error that may be retried, as often as its limits say."""
        try:
            item.work()
        except BaseException as error:
            self.found[item.id] = error
            failure = UserCodeError(f"{item.id} failed: {describe(error)}")
            failure.retryable = True
            raise failure from error
        return LoadResult(None, 0)

    def of(self, results: Iterable[ItemResult]) -> dict[str, BaseException]:
        """The exceptions of the calls that failed in the end; a timeout has none of the function."""
        failed = {result.id: result.problem for result in results if result.problem is not None}
        return {name: _timed_out_or(problem, self.found.get(name)) for name, problem in failed.items()}


def _timed_out_or(problem: Problem, error: BaseException | None) -> BaseException:
    return problem.to_error() if error is None or problem.code == "timeout" else error


@dataclass(frozen=True, slots=True)
class Execution:
    """Where calls are recorded, and how many run at the same time."""

    title: str
    """What the build request is for."""
    log: EventLog
    clock: Clock
    parallel: int

    def run(
        self, name: str, calls: Sequence[Call], listener: RunListener
    ) -> tuple[tuple[ItemResult, ...], Mapping[str, BaseException]]:
        """Run the calls that are not recorded as done; gives the results in their order, and the exceptions by their ids."""
        plan = Plan(name, None, tuple(call.to_item(self.log) for call in calls))
        limits = {item.id: call.limits for item, call in zip(plan.items, calls, strict=True)}
        recorder, errors = RunRecorder(self.log, BuildRecorder(self.clock, uuid7(self.clock))), _Errors()
        scheduler = Scheduler(errors.call, (recorder, listener), self.parallel, limits=lambda item: limits[item.id])
        results = self._record(plan, scheduler, recorder)
        return results, errors.of(results)

    def _record(self, plan: Plan, scheduler: Scheduler, recorder: RunRecorder) -> tuple[ItemResult, ...]:
        begun, build = time.monotonic(), recorder.events.build_request_id
        recorder.received(self.title)
        watch = CancelWatch(self.log, build, recorder)
        try:
            recorder.planned(plan)
            with watch.watch(scheduler.stop):
                results = scheduler.execute(plan)
        except StoppedError as stopped:
            stopped.result = to_stopped_result(build, plan, stopped, time.monotonic() - begun)
            recorder.cancelled(stopped.result, RECORD_SECONDS)
            raise
        except BaseException as error:
            with suppress(EventLogError):
                recorder.failed(describe(error))
            raise
        recorder.finished(RunResult(build, results, time.monotonic() - begun), watch.reason)
        return results


@contextmanager
def use_log(event_log: str | EventLog, clock: Clock) -> Iterator[EventLog]:
    """The log at a URI, closed afterwards; one that was given open stays open."""
    if not isinstance(event_log, str):
        yield event_log
        return
    with open_event_log(event_log, clock) as log:
        yield log
