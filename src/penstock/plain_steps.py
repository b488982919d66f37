"""`penstock.Pipeline`: functions that depend on each other, for people who have functions and not tables.

The steps run on the scheduler of pipeline runs and are recorded in an event log in the same way. This room must not know
projects, tables or Spark.
"""

from __future__ import annotations

import graphlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum

from penstock.definitions.user_code import describe
from penstock.errors import EventLogError, StoppedError, UsageError, UserCodeError
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import Clock, SystemClock, uuid7
from penstock.model.names import DatasetName
from penstock.model.nearest import did_you_mean
from penstock.model.partitions.refs import to_part
from penstock.model.plan import Action, Item, Plan, Reason, WorkItem
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, LoadResult, Outcome, RunResult
from penstock.run.dispatch import Limits, RetryRule
from penstock.run.recording import RunRecorder
from penstock.run.scheduler import Scheduler
from penstock.run.stopping import RECORD_SECONDS, to_stopped_result

KIND = "step"
_NAME = re.compile(r"\w[\w .:-]{0,119}\Z")
_RUN = "run"
"""The partition key of a step that runs under a key."""


class StepStatus(StrEnum):
    """How a step stands."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class PipelineError(UsageError):
    """The steps of a pipeline do not fit together: a name twice, an unknown name, a cycle."""

    code = "pipeline"


@dataclass(frozen=True, slots=True)
class Step:
    """A function, and the steps that must have succeeded before it runs."""

    name: str
    func: Callable[[], object]
    depends_on: tuple[str, ...]
    limits: Limits


class Pipeline:
    """Steps that run in parallel where they can; a failure skips only what depends on it.

    pipeline = Pipeline("nightly", event_log="sqlite:///nightly.db")
    pipeline.add_step("extract", extract)
    pipeline.add_step("report", report, depends_on=["extract"])
    pipeline.run()
    """

    def __init__(
        self, name: str, *, event_log: str | EventLog = "memory://", parallel: int = 4, clock: Clock | None = None
    ) -> None:
        _check_name("pipeline", name)
        if parallel < 1:
            raise PipelineError(f"parallel must be at least 1, not {parallel}")
        self.name = name
        self.statuses: dict[str, StepStatus] = {}
        """How each step stands, in the order in which they were added."""
        self.errors: dict[str, BaseException] = {}
        """The exceptions of steps that failed in the last run."""
        self._event_log = event_log
        self._parallel = parallel
        self._clock = clock or SystemClock()
        self._steps: dict[str, Step] = {}

    def add_step(
        self,
        name: str,
        func: Callable[[], object],
        depends_on: Sequence[str] = (),
        *,
        retries: int = 0,
        retry_delay: float = 1.0,
        timeout: float | None = None,
    ) -> Pipeline:
        """Add a function that runs after other steps; those may be added later. Gives the pipeline back.

        A step that raises is tried again up to `retries` times, after `retry_delay` seconds and then twice as long each time. One
        that takes longer than `timeout` seconds counts as failed: Python cannot end its thread, so its work may go on.
        """
        _check_name("step", name)
        if name in self._steps:
            raise PipelineError(f"pipeline {self.name}: there are two steps called {name!r}", hint="rename one of them")
        if isinstance(depends_on, str):
            raise PipelineError(f"step {name}: depends_on must be a list of names", hint=f"write [{depends_on!r}]")
        if retries < 0 or retry_delay < 0 or (timeout is not None and timeout <= 0):
            raise PipelineError(
                f"step {name}: retries and retry_delay cannot be negative, and timeout must be more than 0"
            )
        limits = Limits(RetryRule(retries + 1, retry_delay), timeout)
        self._steps[name] = Step(name, func, tuple(depends_on), limits)
        self.statuses[name] = StepStatus.PENDING
        return self

    def run(self, key: str | None = None) -> bool:
        """Run the steps; True if all of them have succeeded. `statuses` and `errors` say more.

        With a key, such as the day that a nightly run is for, steps that the event log records as successful for the same key do
        not run again. Without one, every step runs.
        """
        order = self._order()
        self.errors = {}
        self.statuses = dict.fromkeys(self._steps, StepStatus.PENDING)
        with self._open_log() as log:
            plan = Plan(self.name, None, tuple(self._to_item(log, self._steps[name], key) for name in order))
            recorder = RunRecorder(log, BuildRecorder(self._clock, uuid7(self._clock)))
            self._execute(plan, recorder, key)
        return all(status is StepStatus.SUCCESS for status in self.statuses.values())

    def _execute(self, plan: Plan, recorder: RunRecorder, key: str | None) -> None:
        begun, build = time.monotonic(), recorder.events.build_request_id
        recorder.received(f"pipeline {self.name}{'' if key is None else f', key {key}'}")
        listeners = (recorder, _Statuses(self.statuses, self.errors))
        scheduler = Scheduler(self._apply, listeners, self._parallel, limits=self._limits_of)
        try:
            recorder.planned(plan)
            results = scheduler.execute(plan)
        except StoppedError as stopped:
            stopped.result = to_stopped_result(build, plan, stopped, time.monotonic() - begun)
            recorder.cancelled(stopped.result, RECORD_SECONDS)
            raise
        except BaseException as error:
            with suppress(EventLogError):
                recorder.failed(describe(error))
            raise
        recorder.finished(RunResult(build, results, time.monotonic() - begun))

    def _apply(self, item: Item) -> LoadResult:
        name = item.dataset.name
        try:
            self._steps[name].func()
        except BaseException as error:
            self.errors[name] = error
            failure = UserCodeError(f"step {name} failed: {describe(error)}")
            failure.retryable = True  # as often as the step allows
            raise failure from error
        self.errors.pop(name, None)  # of an earlier attempt
        return LoadResult(None, 0)

    def _limits_of(self, item: Item) -> Limits:
        return self._steps[item.dataset.name].limits

    def _to_item(self, log: EventLog, step: Step, key: str | None) -> Item:
        """The step as a work item; without work if the log records its success for the key."""
        part = None if key is None else to_part(_RUN, key)
        inputs = tuple(f"{self.name}.{name}" for name in step.depends_on)
        item: Item = WorkItem(
            DatasetName(self.name, step.name), KIND, Action.RECOMPUTE, (), None, partition=part, upstream=inputs
        )
        state = None if key is None else projections.partition_state(log, item.id, strict=True)
        if state is None or not state.is_available:
            return item
        reason = Reason("up_to_date", f"done in build {state.available_build_request_id}")
        return WorkItem(item.dataset, KIND, Action.NONE, (reason,), None, partition=part, upstream=inputs)

    def _order(self) -> tuple[str, ...]:
        """The steps, each after all it depends on; raises an error that shows a cycle or the step with an unknown name."""
        for step in self._steps.values():
            for name in step.depends_on:
                if name not in self._steps:
                    raise PipelineError(
                        f"pipeline {self.name}: step {step.name!r} depends on {name!r}, which does not exist"
                        f"{did_you_mean(name, self._steps)}",
                        hint=f"the steps are {', '.join(self._steps)}",
                    )
        sorter = graphlib.TopologicalSorter({step.name: step.depends_on for step in self._steps.values()})
        try:
            return tuple(sorter.static_order())
        except graphlib.CycleError as error:
            path = " -> ".join(reversed(error.args[1]))
            raise PipelineError(
                f"pipeline {self.name}: steps depend on each other in a cycle: {path}",
                hint="each of them depends on the next: remove one of these dependencies",
            ) from None

    @contextmanager
    def _open_log(self) -> Iterator[EventLog]:
        """The log; one that was given open stays open."""
        if not isinstance(self._event_log, str):
            yield self._event_log
            return
        with open_event_log(self._event_log, self._clock) as log:
            yield log


class _Statuses:
    """Keeps the statuses and errors of the steps up to date."""

    def __init__(self, statuses: dict[str, StepStatus], errors: dict[str, BaseException]) -> None:
        self._statuses = statuses
        self._errors = errors

    def started(self, item: Item) -> None:
        self._statuses[item.dataset.name] = StepStatus.RUNNING

    def ended(self, result: ItemResult) -> None:
        name = result.dataset.name
        self._statuses[name] = _STATUSES.get(result.outcome, StepStatus.SUCCESS)
        if result.problem is not None:  # a timeout has no exception of the function
            self._errors.setdefault(name, result.problem.to_error())


_STATUSES = {
    Outcome.ERROR: StepStatus.FAILED,
    Outcome.SKIP: StepStatus.SKIPPED,
    Outcome.CANCELLED: StepStatus.CANCELLED,
}


def _check_name(what: str, name: str) -> None:
    if not isinstance(name, str) or not _NAME.match(name):
        raise PipelineError(
            f"{name!r} is not a name of a {what}",
            hint="use up to 120 letters, digits, spaces and . : - _, beginning with a letter or digit",
        )
