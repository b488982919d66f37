"""Executing a plan: each item after its inputs, independent items in parallel, and a failure stops only what depends on it.

An interrupt stops everything: nothing new begins, and what is in progress is cancelled.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from penstock.definitions.user_code import describe
from penstock.errors import PenstockError, StoppedError, to_stopped
from penstock.faults import fault_point
from penstock.model.plan import Action, Item, Plan, Problem, Reason
from penstock.model.results import ItemResult, LoadResult, Outcome
from penstock.run.workers import Workers

Apply = Callable[[Item], LoadResult]
OnStop = Callable[[StoppedError], object]

GRACE_SECONDS = 3.5
"""How long work in progress may take to end after an interrupt; a process must end within 10 seconds of one."""
_CANCEL_AGAIN_SECONDS = 0.25
_LOOK_SECONDS = 1.0
"""A signal that another thread received is handled when the main thread wakes up."""


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
    cancel: Callable[[], None] = lambda: None
    """Makes the work in progress end soon, with an error. Called again until it has: it may be between two steps."""
    on_stop: OnStop = lambda _: None
    grace_seconds: float = GRACE_SECONDS
    _results: dict[str, ItemResult] = field(default_factory=dict)

    def execute(self, plan: Plan) -> tuple[ItemResult, ...]:
        """Execute the plan; the results are in the order of the plan. StoppedError has them, too, after an interrupt."""
        waiting = {item.id: item for item in plan.items}
        running: dict[Future[ItemResult], Item] = {}
        pool: Workers[ItemResult] = Workers(max(1, self.threads))
        try:
            for item in plan.items:
                if not item.action.is_work:
                    self._settle(waiting, _settled(item))
            self._work_off(pool, waiting, running)
        except KeyboardInterrupt as error:
            stopped = to_stopped(error)
            pool.close(wait=False)
            self._stop(stopped, waiting, running)
            stopped.items = tuple(self._results[item.id] for item in plan.items)
            raise stopped from None
        except BaseException:
            pool.close(wait=True)  # what has not begun never begins
            raise
        pool.close(wait=True)
        for item in tuple(waiting.values()):
            problem = Problem("internal", f"{item.id} waits for something that never ends")
            self._settle(waiting, ItemResult(item.id, item.dataset, item.action, Outcome.ERROR, problem=problem))
        return tuple(self._results[item.id] for item in plan.items)

    def _work_off(
        self, pool: Workers[ItemResult], waiting: dict[str, Item], running: dict[Future[ItemResult], Item]
    ) -> None:
        while waiting or running:
            self._skip_blocked(waiting)
            for item in _find_ready(waiting, running.values()):
                future: Future[ItemResult] = Future()
                running[future] = item  # first, so that an interrupt finds everything that was started
                pool.submit(future, partial(contextvars.copy_context().run, self.work, item))
            if not running:
                break
            done, _ = wait(running, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                self._settle(waiting, future.result())
                del running[future]

    def _stop(
        self, stopped: StoppedError, waiting: dict[str, Item], running: Mapping[Future[ItemResult], Item]
    ) -> None:
        """Cancel what is in progress, give it some seconds to end, and settle everything that has no result."""
        ended_before = {future for future in running if future.done()}
        self.on_stop(stopped)
        begun = [future for future in running if not future.cancel()]
        with self._cancelling():
            wait(begun, timeout=self.grace_seconds)
        results = [
            _stopped_result(item, future, str(stopped), is_cancelled=future not in ended_before)
            for future, item in running.items()
        ]
        known = self._results.keys() | {result.id for result in results}
        results += [cancelled(item) for item in waiting.values() if item.id not in known]
        for result in results:
            with suppress(Exception):  # an event log that cannot be reached does not change what was done
                self._settle(waiting, result)

    @contextmanager
    def _cancelling(self) -> Iterator[None]:
        """Cancel the work again and again while the block waits for it; in a thread, because a session may not answer."""
        has_ended = threading.Event()

        def cancel() -> None:
            while not has_ended.is_set():
                with suppress(Exception):
                    self.cancel()
                has_ended.wait(_CANCEL_AGAIN_SECONDS)

        threading.Thread(target=cancel, name="penstock-cancel", daemon=True).start()
        try:
            yield
        finally:
            has_ended.set()

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
        except BaseException as error:  # noqa: BLE001 - nothing that one item does may stop the others
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


def cancelled(item: Item) -> ItemResult:
    """The result of an item that was not started because of an interrupt; items without work need not be."""
    if not item.action.is_work:
        return _settled(item)
    return ItemResult(item.id, item.dataset, item.action, Outcome.CANCELLED, (Reason("cancelled", "not started"),))


def _stopped_result(item: Item, future: Future[ItemResult], reason: str, *, is_cancelled: bool) -> ItemResult:
    """What an item that was in progress came to; an error after the interrupt is most likely caused by it."""
    if future.cancelled():
        return cancelled(item)
    why = (Reason("cancelled", reason),)
    if not future.done() or future.exception() is not None:
        return ItemResult(item.id, item.dataset, item.action, Outcome.CANCELLED, why)
    result = future.result()
    if is_cancelled and result.outcome is Outcome.ERROR:
        return replace(result, outcome=Outcome.CANCELLED, reasons=why, problem=None)
    return result


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
