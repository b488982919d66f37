"""Executing a plan in threads: each item after its inputs, independent items in parallel, as `run.dispatch` decides.

An interrupt stops everything: nothing new begins, and what is in progress is cancelled.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
from penstock.run.dispatch import NO_LIMITS, Dispatch, Limits, Skip, Task, Verdict
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
    """Runs the work of one plan: `run.dispatch` decides, threads do it."""

    apply: Apply
    listeners: tuple[RunListener, ...] = ()
    threads: int = 1
    clock: Callable[[], float] = time.monotonic
    cancel: Callable[[], None] = lambda: None
    """Makes the work in progress end soon, with an error. Called again until it has: it may be between two steps."""
    on_stop: OnStop = lambda _: None
    grace_seconds: float = GRACE_SECONDS
    limits: Callable[[Item], Limits] = lambda _: NO_LIMITS
    """How often an item is tried when its error is retryable, and how long it may take."""
    max_failures: int | None = None
    """After more failed items than this, nothing new begins."""
    _results: dict[str, ItemResult] = field(default_factory=dict)
    _running: dict[Future[ItemResult], Item] = field(default_factory=dict)

    def execute(self, plan: Plan) -> tuple[ItemResult, ...]:
        """Execute the plan; the results are in the order of the plan. StoppedError has them, too, after an interrupt."""
        items = {item.id: item for item in plan.items}
        dispatch = Dispatch(_to_task(item, self.limits(item)) for item in plan.items)
        pool: Workers[ItemResult] = Workers(max(1, self.threads))
        try:
            self._settle_idle(plan, dispatch, items)
            self._work_off(pool, dispatch, items)
        except KeyboardInterrupt as error:
            stopped = to_stopped(error)
            pool.close(wait=False)
            self._stop(stopped, plan)
            stopped.items = tuple(self._results[item.id] for item in plan.items)
            raise stopped from None
        except BaseException:
            pool.close(wait=True)  # what has not begun never begins
            raise
        pool.close(wait=True)
        for item in plan.items:
            if item.id not in self._results:
                problem = Problem("internal", f"{item.id} waits for something that never ends")
                self._settle(ItemResult(item.id, item.dataset, item.action, Outcome.ERROR, problem=problem))
        return tuple(self._results[item.id] for item in plan.items)

    def _settle_idle(self, plan: Plan, dispatch: Dispatch, items: Mapping[str, Item]) -> None:
        """Items without work end at once, with or without a problem."""
        idle = [_settled(item) for item in plan.items if not item.action.is_work]
        for result in idle:
            self._settle(result)
        self._skip(dispatch.settle({result.id: not _has_failed(result) for result in idle}), items)

    def _work_off(self, pool: Workers[ItemResult], dispatch: Dispatch, items: Mapping[str, Item]) -> None:
        while True:
            for task in dispatch.start(time.monotonic(), max(1, self.threads) - len(self._running)):
                future: Future[ItemResult] = Future()
                self._running[future] = items[task.id]  # first, so that an interrupt finds everything that was started
                pool.submit(future, partial(contextvars.copy_context().run, self.work, items[task.id]))
            due = dispatch.next_look()
            if not self._running and due is None:
                return
            seconds = _LOOK_SECONDS if due is None else min(_LOOK_SECONDS, max(0.0, due - time.monotonic()))
            for future in self._wait(seconds):
                self._finish(dispatch, items, future, future.result())
            for task in dispatch.overdue(time.monotonic()):
                self._give_up(pool, dispatch, items, task)

    def _wait(self, seconds: float) -> Collection[Future[ItemResult]]:
        if not self._running:
            threading.Event().wait(seconds)  # until a retry is due
            return ()
        return wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED).done

    def _finish(
        self, dispatch: Dispatch, items: Mapping[str, Item], future: Future[ItemResult], result: ItemResult
    ) -> None:
        """An attempt of an item ended: its result counts, unless it is tried again."""
        verdict = _verdict_of(result)
        if not dispatch.will_retry(result.id, verdict):
            self._settle(result)
        skips = dispatch.finish(result.id, verdict, time.monotonic())
        del self._running[future]
        self._skip(skips, items)
        self._stop_early(dispatch, items)

    def _stop_early(self, dispatch: Dispatch, items: Mapping[str, Item]) -> None:
        """Start nothing more once too many items have failed."""
        if self.max_failures is None:
            return
        failed = sum(result.outcome is Outcome.ERROR for result in self._results.values())
        if failed <= self.max_failures:
            return
        waiting, _ = dispatch.cancel()
        reason = Reason("too_many_failures", f"{failed} items failed, more than --max-failures {self.max_failures}")
        for task in waiting:
            item = items[task.id]
            self._settle(ItemResult(item.id, item.dataset, Action.SKIP, Outcome.SKIP, (reason,)))

    def _give_up(self, pool: Workers[ItemResult], dispatch: Dispatch, items: Mapping[str, Item], task: Task) -> None:
        """An attempt takes too long: its thread cannot be ended, so its result will be ignored and another takes its place."""
        (future,) = (future for future, item in self._running.items() if item.id == task.id)
        if future.done():  # just now
            self._finish(dispatch, items, future, future.result())
            return
        pool.give_up(future)
        item, seconds = items[task.id], task.limits.timeout or 0.0
        problem = Problem("timeout", f"{item.id} took longer than {seconds:g} s", is_retryable=True)
        result = ItemResult(item.id, item.dataset, item.action, Outcome.ERROR, item.reasons, seconds, problem=problem)
        self._finish(dispatch, items, future, result)

    def _stop(self, stopped: StoppedError, plan: Plan) -> None:
        """Cancel what is in progress, give it some seconds to end, and settle everything that has no result."""
        running = dict(self._running)
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
        results += [cancelled(item) for item in plan.items if item.id not in known]
        for result in results:
            with suppress(Exception):  # an event log that cannot be reached does not change what was done
                self._settle(result)

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

    def _settle(self, result: ItemResult) -> None:
        self._results[result.id] = result
        for listener in self.listeners:
            listener.ended(result)

    def _skip(self, skips: Iterable[Skip], items: Mapping[str, Item]) -> None:
        """Settle items that cannot run, each after the ones because of which it cannot."""
        for skip in skips:
            text = ", ".join(self._describe_blocker(name) for name in skip.because)
            item = items[skip.task.id]
            reason = Reason("upstream_failed", text)
            self._settle(ItemResult(item.id, item.dataset, Action.SKIP, Outcome.SKIP, (reason,)))

    def _describe_blocker(self, item_id: str) -> str:
        """Why an item stops its readers; one without a result yet is about to be skipped."""
        result = self._results.get(item_id)
        has_failed = result is not None and result.outcome is Outcome.ERROR
        return f"{item_id} {'failed' if has_failed else 'was skipped'}"

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


def _to_task(item: Item, limits: Limits) -> Task:
    return Task(item.id, str(item.dataset), item.upstream, item.is_parallel, limits)


def _verdict_of(result: ItemResult) -> Verdict:
    if result.problem is not None and result.problem.is_retryable:
        return Verdict.RETRYABLE
    return Verdict.FAILED if _has_failed(result) else Verdict.SUCCEEDED


def _has_failed(result: ItemResult) -> bool:
    """Whether what reads it cannot go on; a table that is only left as it is can be read."""
    return result.outcome in {Outcome.ERROR, Outcome.SKIP} and (result.action.is_work or result.action.is_skip)
