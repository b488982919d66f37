"""Executing a plan: each item after its inputs, independent items in parallel, and a failure stops only what depends on it."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from penstock.definitions.user_code import describe
from penstock.errors import PenstockError
from penstock.faults import fault_point
from penstock.model.plan import Action, Item, Plan, Problem, Reason
from penstock.model.results import ItemResult, LoadResult, Outcome

Apply = Callable[[Item], LoadResult]


class RunListener(Protocol):
    """Notified when an item starts and ends; called from worker threads."""

    def started(self, item: Item) -> None:
        """Work on the item begins."""

    def ended(self, result: ItemResult) -> None:
        """The item is done, with or without success."""


@dataclass(slots=True)
class Scheduler:
    """Runs the work of one plan."""

    apply: Apply
    listeners: tuple[RunListener, ...] = ()
    threads: int = 1
    clock: Callable[[], float] = time.monotonic
    _results: dict[str, ItemResult] = field(default_factory=dict)

    def execute(self, plan: Plan) -> tuple[ItemResult, ...]:
        """Execute the plan; the results are in the order of the plan."""
        waiting = {item.id: item for item in plan.items}
        for item in plan.items:
            if not item.action.is_work:
                self._settle(waiting, _settled(item))
        with ThreadPoolExecutor(max_workers=max(1, self.threads), thread_name_prefix="penstock") as pool:
            try:
                self._work_off(pool, waiting)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # an interrupt cancels what has not begun
                raise
        for item in tuple(waiting.values()):
            problem = Problem("internal", f"{item.id} waits for something that never ends")
            self._settle(waiting, ItemResult(item.id, item.dataset, item.action, Outcome.ERROR, problem=problem))
        return tuple(self._results[item.id] for item in plan.items)

    def _work_off(self, pool: ThreadPoolExecutor, waiting: dict[str, Item]) -> None:
        running: dict[Future[ItemResult], Item] = {}
        while waiting or running:
            self._skip_blocked(waiting)
            for item in _find_ready(waiting, running.values()):
                context = contextvars.copy_context()
                running[pool.submit(context.run, self.work, item)] = item
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                del running[future]
                self._settle(waiting, future.result())

    def _settle(self, waiting: dict[str, Item], result: ItemResult) -> None:
        self._results[result.id] = result
        waiting.pop(result.id, None)
        for listener in self.listeners:
            listener.ended(result)

    def _skip_blocked(self, waiting: dict[str, Item]) -> None:
        """Skip every item that waits for one that failed or was skipped; repeated until nothing changes."""
        failed = {name: r for r in self._results.values() if _has_failed(r) for name in (r.id, str(r.dataset))}
        blocked = bool(failed)
        while blocked:
            blocked = False
            for item in list(waiting.values()):
                blockers = {failed[name].id: failed[name] for name in item.upstream if name in failed}
                if blockers:
                    reason = Reason("upstream_failed", ", ".join(map(_describe_blocker, blockers.values())))
                    skipped = ItemResult(item.id, item.dataset, Action.SKIP, Outcome.SKIP, (reason,))
                    self._settle(waiting, skipped)
                    failed |= {item.id: skipped, str(item.dataset): skipped}
                    blocked = True

    def work(self, item: Item) -> ItemResult:
        """Execute one item; any error becomes part of the result."""
        begun = self.clock()
        for listener in self.listeners:
            listener.started(item)
        fault_point("run.before_dataset", item.id)
        try:
            load = self.apply(item)
            outcome = _outcome_of(load)
        except PenstockError as error:
            return self._result(item, begun, Outcome.ERROR, problem=Problem.from_error(error))
        except Exception as error:  # noqa: BLE001 - one item's failure must not stop the others
            problem = Problem("internal", f"{item.id}: {describe(error)}")
            return self._result(item, begun, Outcome.ERROR, problem=problem)
        fault_point("run.after_dataset", item.id)
        return self._result(item, begun, outcome, load=load)

    def _result(
        self,
        item: Item,
        begun: float,
        outcome: Outcome,
        *,
        load: LoadResult | None = None,
        problem: Problem | None = None,
    ) -> ItemResult:
        seconds = self.clock() - begun
        return ItemResult(item.id, item.dataset, item.action, outcome, item.reasons, seconds, load, problem)


def settle(plan: Plan, listeners: tuple[RunListener, ...]) -> tuple[ItemResult, ...]:
    """The results of a plan that has no work."""
    results = tuple(_settled(item) for item in plan.items)
    for result in results:
        for listener in listeners:
            listener.ended(result)
    return results


def _outcome_of(load: LoadResult) -> Outcome:
    if load.is_waiting:  # what reads it has nothing to read yet
        return Outcome.SKIP
    return Outcome.WARN if load.has_violations else Outcome.PASS


def _settled(item: Item) -> ItemResult:
    if item.problem is not None:
        outcome = Outcome.ERROR
    elif item.action.is_skip:
        outcome = Outcome.SKIP
    else:
        outcome = Outcome.NO_OP
    return ItemResult(item.id, item.dataset, item.action, outcome, item.reasons, problem=item.problem)


def _find_ready(waiting: Mapping[str, Item], running: Collection[Item]) -> list[Item]:
    """Items that wait for nothing; those of one table run one after another unless they may run in parallel."""
    pending = {name for item in waiting.values() for name in (item.id, str(item.dataset))}
    started = {item.id for item in running}
    used = {item.dataset for item in running}
    exclusive = {item.dataset for item in running if not item.is_parallel}
    ready = []
    for item in waiting.values():
        is_free = item.dataset not in (exclusive if item.is_parallel else used)
        if item.id not in started and is_free and pending.isdisjoint(item.upstream):
            ready.append(item)
            used.add(item.dataset)
            exclusive |= set() if item.is_parallel else {item.dataset}
    return ready


def _has_failed(result: ItemResult) -> bool:
    """Whether what reads it cannot go on; a table that is only left as it is can be read."""
    return result.outcome in {Outcome.ERROR, Outcome.SKIP} and (result.action.is_work or result.action.is_skip)


def _describe_blocker(result: ItemResult) -> str:
    return f"{result.id} {'failed' if result.outcome is Outcome.ERROR else 'was skipped'}"
