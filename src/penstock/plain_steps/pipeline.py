"""`penstock.Pipeline`: functions that depend on each other."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from penstock.eventlog.contract import EventLog
from penstock.model.clock import Clock, SystemClock
from penstock.model.names import DatasetName
from penstock.model.nearest import did_you_mean
from penstock.model.partitions.refs import find_unusable, to_part
from penstock.model.plan import Item
from penstock.model.results import ItemResult
from penstock.plain_steps.execution import Call, Execution, use_log
from penstock.plain_steps.values import (
    PipelineError,
    StepStatus,
    check_function,
    check_name,
    check_parallel,
    to_key,
    to_limits,
    to_step_status,
)
from penstock.run.dispatch import Limits

_RUN = "run"
"""The partition key of a step that runs under a key."""


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
        check_name("pipeline", name)
        check_parallel(parallel)
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
        check_name("step", name)
        if name in self._steps:
            raise PipelineError(f"pipeline {self.name}: there are two steps called {name!r}", hint="rename one of them")
        if isinstance(depends_on, str):
            raise PipelineError(f"step {name}: depends_on must be a list of names", hint=f"write [{depends_on!r}]")
        check_function(f"step {name}", func)
        self._steps[name] = Step(
            name, func, tuple(depends_on), to_limits(f"step {name}", retries, retry_delay, timeout)
        )
        self.statuses[name] = StepStatus.PENDING
        return self

    def run(self, key: str | date | None = None) -> bool:
        """Run the steps; True if all of them have succeeded. `statuses` and `errors` say more.

        With a key, such as the day that a nightly run is for, steps that the event log records as successful for the same key do
        not run again. Without one, every step runs.
        """
        key = None if key is None else to_key(key)
        if key is not None and (unusable := find_unusable(_RUN, key)) is not None:
            raise PipelineError(f"pipeline {self.name}: the key is {unusable}", hint="use a short text, such as a date")
        calls = [self._to_call(self._steps[name], key) for name in self._order()]
        self.errors = {}
        self.statuses = dict.fromkeys(self._steps, StepStatus.PENDING)
        title = f"pipeline {self.name}{'' if key is None else f', key {key}'}"
        with use_log(self._event_log, self._clock) as log:
            results, errors = Execution(title, log, self._clock, self._parallel).run(self.name, calls, self)
        self.errors = {result.dataset.name: errors[result.id] for result in results if result.id in errors}
        return all(status is StepStatus.SUCCESS for status in self.statuses.values())

    def started(self, item: Item) -> None:
        """The scheduler begins a step."""
        self.statuses[item.dataset.name] = StepStatus.RUNNING

    def ended(self, result: ItemResult) -> None:
        """The scheduler is done with a step."""
        self.statuses[result.dataset.name] = to_step_status(result.outcome)

    def _to_call(self, step: Step, key: str | None) -> Call:
        part = None if key is None else to_part(_RUN, key)
        inputs = tuple(f"{self.name}.{name}" for name in step.depends_on)
        return Call(DatasetName(self.name, step.name), step.func, part, inputs, step.limits)

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
