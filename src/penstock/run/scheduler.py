"""Executing a plan in threads: each item after its inputs, independent items in parallel, as `run.dispatch` decides.

An interrupt stops everything: nothing new begins, and what is in progress is cancelled. `Scheduler.stop` does the same for one
item or for all, from any thread, and the run ends normally, with results that say so.
"""

from __future__ import annotations

import contextvars
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from penstock.definitions.user_code import describe
from penstock.errors import PenstockError, StoppedError, to_stopped
from penstock.faults import fault_point
from penstock.model.plan import Action, Item, Plan, Problem, Reason
from penstock.model.results import CANCEL_REQUESTED, ItemResult, LoadResult, Outcome
from penstock.run.dispatch import NO_LIMITS, Dispatch, Limits, Skip, Task, Verdict
from penstock.run.failures import FailureLimit
from penstock.run.listeners import RunListener, watchers_of
from penstock.run.workers import Workers

Apply = Callable[[Item], LoadResult]
OnStop = Callable[[StoppedError], object]

GRACE_SECONDS = 3.5
"""How long work in progress may take to end after an interrupt; a process must end within 10 seconds of one."""
PATIENCE_SECONDS = 30.0
"""How long one item may take to end when it is cancelled or has taken too long, before nobody waits for it any more."""
_CANCEL_AGAIN_SECONDS = 0.25
_LOOK_SECONDS = 1.0
"""A signal that another thread received is handled when the main thread wakes up."""


@dataclass(frozen=True, slots=True)
class _Stop:
    """Why an attempt that is in progress must end, and until when it is waited for."""

    why: Reason
    until: float
    problem: Problem | None = None
    """What the attempt failed with; None when it is cancelled."""

    def apply_to(self, result: ItemResult) -> ItemResult:
        """What the attempt came to; an error is most likely caused by the stop, and what was done is done."""
        if result.outcome is not Outcome.ERROR:
            return result
        if self.problem is not None:
            return replace(result, problem=self.problem)
        return replace(result, outcome=Outcome.CANCELLED, reasons=(self.why,), problem=None)


@dataclass(slots=True)
class Scheduler:
    """Runs the work of one plan: `run.dispatch` decides, threads do it."""

    apply: Apply
    listeners: tuple[RunListener, ...] = ()
    threads: int = 1
    clock: Callable[[], float] = time.monotonic
    """Measures how long items take, and says when a retry or a timeout is due."""
    cancel: Callable[[Item], None] | None = None
    """Makes the work on an item end soon, with an error. Called again until it has: it may be between two steps."""
    on_stop: OnStop = lambda _: None
    grace_seconds: float = GRACE_SECONDS
    limits: Callable[[Item], Limits] = lambda _: NO_LIMITS
    """How often an item is tried when its error is retryable, and how long it may take."""
    is_later: Callable[[Item], bool] = lambda _: False
    """Whether an item is better done after others: it would only wait."""
    failures: FailureLimit = field(default_factory=FailureLimit)
    """After more failed partitions than it allows, nothing new begins."""
    _results: dict[str, ItemResult] = field(default_factory=dict)
    _running: dict[Future[ItemResult], Item] = field(default_factory=dict)
    _stopping: dict[Future[ItemResult], _Stop] = field(default_factory=dict)
    _asked: dict[str | None, str] = field(default_factory=dict)
    """The items that are to be cancelled, and why; None stands for all."""
    _cancelled: set[str | None] = field(default_factory=set)
    """The items that were cancelled so far; None stands for all."""
    _wake: Future[None] = field(default_factory=Future)
    _canceller: threading.Thread | None = None
    _is_over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

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
            self._interrupt(stopped, plan)
            stopped.items = tuple(self._results[item.id] for item in plan.items)
            raise stopped from None
        except BaseException:
            pool.close(wait=True)  # what has not begun never begins
            raise
        finally:
            self._is_over.set()
        pool.close(wait=True)
        for item in plan.items:
            if item.id not in self._results:
                problem = Problem("internal", f"{item.id} waits for something that never ends")
                self._settle(ItemResult(item.id, item.dataset, item.action, Outcome.ERROR, problem=problem))
        return tuple(self._results[item.id] for item in plan.items)

    def stop(self, reason: str, item_id: str | None = None) -> None:
        """Cancel an item, or everything that has not ended: what waits never starts. Can be called from any thread."""
        with self._lock:
            self._asked.setdefault(item_id, reason)
            if not self._wake.done():
                self._wake.set_result(None)

    def is_cancelled(self, item_id: str) -> bool:
        """Whether an item was cancelled: nothing of it may begin any more. Can be called from any thread."""
        return item_id in self._cancelled or None in self._cancelled

    def _settle_idle(self, plan: Plan, dispatch: Dispatch, items: Mapping[str, Item]) -> None:
        """Items without work end at once, with or without a problem."""
        idle = [_settled(item) for item in plan.items if not item.action.is_work]
        for result in idle:
            self._settle(result)
        self._skip(dispatch.settle({result.id: not _has_failed(result) for result in idle}), items)

    def _work_off(self, pool: Workers[ItemResult], dispatch: Dispatch, items: Mapping[str, Item]) -> None:
        while True:
            self._obey(dispatch, items)
            free = max(1, self.threads) - len(self._running)
            for task in dispatch.start(self.clock(), free, lambda name: self.is_later(items[name])):
                future: Future[ItemResult] = Future()
                self._running[future] = items[task.id]  # first, so that an interrupt finds everything that was started
                pool.submit(future, partial(contextvars.copy_context().run, self.work, items[task.id]))
            due = dispatch.next_look()
            if not self._running and due is None:
                return
            seconds = _LOOK_SECONDS if due is None else min(_LOOK_SECONDS, max(0.0, due - self.clock()))
            for future in self._wait(max(seconds, _CANCEL_AGAIN_SECONDS) if self._stopping else seconds):
                self._finish(dispatch, items, future, future.result())
            self._end_overdue(pool, dispatch, items)

    def _wait(self, seconds: float) -> Collection[Future[ItemResult]]:
        watched: list[Future[Any]] = [*self._running, self._wake]
        done = wait(watched, timeout=seconds, return_when=FIRST_COMPLETED).done
        return [future for future in self._running if future in done]

    def _obey(self, dispatch: Dispatch, items: Mapping[str, Item]) -> None:
        """Cancel what `stop` was asked for: what has not begun ends now, what is in progress is told to end."""
        with self._lock:
            asked, self._asked = self._asked, {}
            if self._wake.done():
                self._wake = Future()
        self._cancelled |= asked.keys()  # before work is told: what has not begun asks
        for item_id, reason in asked.items():
            why = Reason(CANCEL_REQUESTED, reason)
            for future, item in self._running.items():
                if item_id in {None, item.id}:
                    # Work that cannot be cancelled is only asked to stop: it ends when it ends.
                    patience = PATIENCE_SECONDS if self.cancel is not None else math.inf
                    self._tell(future, _Stop(why, self.clock() + patience))
            waiting, skips = dispatch.cancel(None if item_id is None else [item_id] if item_id in items else [])
            for task in waiting:
                self._settle(cancelled(items[task.id], why))
            self._skip(skips, items)

    def _tell(self, future: Future[ItemResult], stop: _Stop) -> None:
        """Make an attempt end: a thread cancels its work again and again, because a session may not answer."""
        self._stopping.setdefault(future, stop)
        if self._canceller is None and self.cancel is not None:
            self._canceller = threading.Thread(target=self._cancel_all, name="penstock-cancel", daemon=True)
            self._canceller.start()

    def _cancel_all(self) -> None:
        while not self._is_over.is_set():
            for future in tuple(self._stopping):
                if self.cancel is not None and (item := self._running.get(future)) is not None and not future.done():
                    with suppress(Exception):
                        self.cancel(item)
            self._is_over.wait(_CANCEL_AGAIN_SECONDS)

    def _finish(
        self, dispatch: Dispatch, items: Mapping[str, Item], future: Future[ItemResult], result: ItemResult
    ) -> None:
        """An attempt of an item ended: its result counts, unless it is tried again."""
        stop = self._stopping.pop(future, None)
        result = stop.apply_to(result) if stop is not None else result
        verdict = _verdict_of(result)
        if not dispatch.will_retry(result.id, verdict):
            self._settle(result)
            self.failures.add(_failed_refs(items[result.id], result))
        else:
            for watcher in watchers_of(self.listeners):
                watcher.retries(result)
        skips = dispatch.finish(result.id, verdict, self.clock())
        del self._running[future]
        self._skip(skips, items)
        self._stop_early(dispatch, items)

    def _stop_early(self, dispatch: Dispatch, items: Mapping[str, Item]) -> None:
        """Start nothing more once too many partitions have failed."""
        if not self.failures.is_exceeded:
            return
        waiting, _ = dispatch.cancel()
        reason = self.failures.reason
        for task in waiting:
            item = items[task.id]
            self._settle(ItemResult(item.id, item.dataset, Action.SKIP, Outcome.SKIP, (reason,)))

    def _end_overdue(self, pool: Workers[ItemResult], dispatch: Dispatch, items: Mapping[str, Item]) -> None:
        """Stop attempts that take too long. Nobody waits for one that cannot be stopped: another thread takes its place."""
        now = self.clock()
        late = {task.id: task for task in dispatch.overdue(now)}
        for future, item in tuple(self._running.items()):
            if future not in self._stopping and (task := late.get(item.id)) is not None:
                text = f"{item.id} took longer than {task.limits.timeout or 0.0:g} s"
                patience = PATIENCE_SECONDS if self.cancel is not None else 0.0
                problem = Problem("timeout", text, is_retryable=True)
                self._tell(future, _Stop(Reason("timeout", text), now + patience, problem))
            stop = self._stopping.get(future)
            if future.done():
                self._finish(dispatch, items, future, future.result())
            elif stop is not None and stop.until <= now:
                pool.give_up(future)
                seconds = task.limits.timeout or 0.0 if (task := late.get(item.id)) is not None else 0.0
                lost = ItemResult(item.id, item.dataset, item.action, Outcome.ERROR, item.reasons, seconds)
                self._finish(dispatch, items, future, lost)

    def _interrupt(self, stopped: StoppedError, plan: Plan) -> None:
        """Cancel what is in progress, give it some seconds to end, and settle everything that has no result."""
        running = dict(self._running)
        ended_before = {future for future in running if future.done()}
        self.on_stop(stopped)
        begun = [future for future in running if not future.cancel()]
        for future in begun:
            self._tell(future, _Stop(Reason("cancelled", str(stopped)), 0.0))
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
        ends = {Outcome.ERROR: "failed", Outcome.CANCELLED: "was cancelled"}
        return f"{item_id} {ends.get(result.outcome, 'was skipped') if result is not None else 'was skipped'}"

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
        result = self._result(item, begun, outcome, load=load)
        return result if load.delegated_to is None else replace(result, reasons=(_delegated(load.delegated_to),))

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


_NOT_STARTED = Reason("cancelled", "not started")


def cancelled(item: Item, why: Reason = _NOT_STARTED) -> ItemResult:
    """The result of an item that was not started because the run was stopped; items without work need not be."""
    if not item.action.is_work:
        return _settled(item)
    return ItemResult(item.id, item.dataset, item.action, Outcome.CANCELLED, (why,))


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


def _delegated(build_request_id: str) -> Reason:
    return Reason("delegated", f"build {build_request_id} has built it" if build_request_id else "it is up to date")


def _outcome_of(load: LoadResult) -> Outcome:
    if load.delegated_to is not None:
        return Outcome.NO_OP
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
    if result.outcome is Outcome.CANCELLED:
        return Verdict.CANCELLED
    if result.problem is not None and result.problem.is_retryable:
        return Verdict.RETRYABLE
    return Verdict.FAILED if _has_failed(result) else Verdict.SUCCEEDED


def _failed_refs(item: Item, result: ItemResult) -> Iterable[str]:
    """What failed of an item: a batch may have good partitions, too."""
    if result.outcome is not Outcome.ERROR:
        return ()
    parts = result.problem.failed if result.problem is not None else ()
    return [f"{item.dataset}/{part}" for part in parts] or item.refs


def _has_failed(result: ItemResult) -> bool:
    """Whether what reads it cannot go on; a table that is only left as it is can be read."""
    return result.outcome in {Outcome.ERROR, Outcome.SKIP} and (result.action.is_work or result.action.is_skip)
