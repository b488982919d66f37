"""Executing a plan: each dataset after its inputs, independent ones side by side, and a failure stops only what needs it."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from penstock.definitions.user_code import describe
from penstock.errors import PenstockError
from penstock.faults import fault_point
from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan, Plan, Problem, Reason
from penstock.model.results import DatasetResult, LoadResult, Outcome

Apply = Callable[[DatasetPlan], LoadResult]


class RunListener(Protocol):
    """Told about each dataset as it starts and ends; called from worker threads."""

    def started(self, plan: DatasetPlan) -> None:
        """Work on the dataset begins."""

    def ended(self, result: DatasetResult) -> None:
        """The dataset is done, one way or another."""


@dataclass(slots=True)
class Scheduler:
    """Runs the work of one plan."""

    apply: Apply
    listeners: tuple[RunListener, ...] = ()
    threads: int = 1
    clock: Callable[[], float] = time.monotonic
    _results: dict[DatasetName, DatasetResult] = field(default_factory=dict)

    def execute(self, plan: Plan) -> tuple[DatasetResult, ...]:
        """Do all that the plan says; the results are in the order of the plan."""
        waiting = {dataset.name: dataset for dataset in plan.datasets}
        for dataset in plan.datasets:
            if not dataset.action.is_work:
                self._settle(waiting, _settled(dataset))
        with ThreadPoolExecutor(max_workers=max(1, self.threads), thread_name_prefix="penstock") as pool:
            try:
                self._work_off(pool, waiting)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # an interrupt stops what has not begun
                raise
        return tuple(self._results[dataset.name] for dataset in plan.datasets)

    def _work_off(self, pool: ThreadPoolExecutor, waiting: dict[DatasetName, DatasetPlan]) -> None:
        running: dict[Future[DatasetResult], DatasetName] = {}
        while waiting or running:
            self._skip_blocked(waiting)
            for dataset in _ready(waiting, running.values()):
                context = contextvars.copy_context()
                running[pool.submit(context.run, self.work, dataset)] = dataset.name
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                del running[future]
                self._settle(waiting, future.result())

    def _settle(self, waiting: dict[DatasetName, DatasetPlan], result: DatasetResult) -> None:
        self._results[result.name] = result
        waiting.pop(result.name, None)
        for listener in self.listeners:
            listener.ended(result)

    def _skip_blocked(self, waiting: dict[DatasetName, DatasetPlan]) -> None:
        """Skip whatever waits for something that failed or was skipped itself; repeated until nothing changes."""
        blocked = True
        while blocked:
            blocked = False
            for dataset in list(waiting.values()):
                blockers = [self._results[name] for name in dataset.inputs if _has_failed(self._results.get(name))]
                if blockers:
                    reason = Reason("upstream_failed", ", ".join(map(_describe_blocker, blockers)))
                    self._settle(waiting, DatasetResult(dataset.name, Action.SKIP, Outcome.SKIP, (reason,)))
                    blocked = True

    def work(self, dataset: DatasetPlan) -> DatasetResult:
        """Do what is planned for one dataset; whatever goes wrong becomes part of the result."""
        begun = self.clock()
        for listener in self.listeners:
            listener.started(dataset)
        fault_point("run.before_dataset", str(dataset.name))
        try:
            load = self.apply(dataset)
        except PenstockError as error:
            problem = Problem(error.code, error.message, error.hint, error.location)
            return self._result(dataset, begun, Outcome.ERROR, problem=problem)
        except Exception as error:  # noqa: BLE001 - one dataset's failure must not stop the others
            problem = Problem("internal", f"{dataset.name}: {describe(error)}")
            return self._result(dataset, begun, Outcome.ERROR, problem=problem)
        fault_point("run.after_dataset", str(dataset.name))
        if dataset.action is Action.APPLY and load.version is None:  # what reads it has nothing to read yet
            return self._result(dataset, begun, Outcome.SKIP, load=load)
        return self._result(dataset, begun, Outcome.WARN if load.has_violations else Outcome.PASS, load=load)

    def _result(
        self,
        dataset: DatasetPlan,
        begun: float,
        outcome: Outcome,
        *,
        load: LoadResult | None = None,
        problem: Problem | None = None,
    ) -> DatasetResult:
        seconds = self.clock() - begun
        return DatasetResult(dataset.name, dataset.action, outcome, dataset.reasons, seconds, load, problem)


def settle(plan: Plan, listeners: tuple[RunListener, ...]) -> tuple[DatasetResult, ...]:
    """The results of a plan that has no work."""
    results = tuple(_settled(dataset) for dataset in plan.datasets)
    for result in results:
        for listener in listeners:
            listener.ended(result)
    return results


def _settled(dataset: DatasetPlan) -> DatasetResult:
    if dataset.problem is not None:
        outcome = Outcome.ERROR
    elif dataset.action is Action.SKIP:
        outcome = Outcome.SKIP
    else:
        outcome = Outcome.NO_OP
    return DatasetResult(dataset.name, dataset.action, outcome, dataset.reasons, problem=dataset.problem)


def _ready(waiting: Mapping[DatasetName, DatasetPlan], running: Iterable[DatasetName]) -> list[DatasetPlan]:
    busy = set(running)
    return [
        dataset
        for dataset in waiting.values()
        if dataset.name not in busy and not any(name in waiting for name in dataset.inputs)
    ]


def _has_failed(result: DatasetResult | None) -> bool:
    return result is not None and result.outcome in {Outcome.ERROR, Outcome.SKIP}


def _describe_blocker(result: DatasetResult) -> str:
    return f"{result.name} {'failed' if result.outcome is Outcome.ERROR else 'was skipped'}"
