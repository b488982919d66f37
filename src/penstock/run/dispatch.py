"""The scheduler's decisions without threads, clock or I/O: which task may start, what is skipped, what is tried again.

    dispatch = Dispatch(tasks)
    for task in dispatch.start(now, free=2): ...                  # these are running now
    skipped = dispatch.finish(task.id, Verdict.FAILED, now)       # and what cannot run because of it
    dispatch.next_look()                                          # when a retry or a timeout is due

Times are seconds of any monotonic clock. Every task that is not running has a place in one of a few queues, so a graph costs its
tasks and edges once, not once per result.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

_LOOK_AHEAD = 100
"""How many tasks are passed over in the search for one that need not be done later: graphs may have tens of thousands."""


class Stage(StrEnum):
    """Where a task stands."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self not in {Stage.WAITING, Stage.RUNNING}


class Verdict(StrEnum):
    """How one attempt of a task ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Trying again cannot help."""
    RETRYABLE = "retryable"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class RetryRule:
    """How often a task is tried, and how long to wait before each further attempt."""

    attempts: int = 1
    first_delay: float = 1.0
    factor: float = 2.0
    longest_delay: float = 300.0

    def delay_after(self, attempt: int) -> float:
        """The seconds between the end of an attempt, counted from 1, and the next one."""
        try:
            return min(self.longest_delay, self.first_delay * self.factor ** (attempt - 1))
        except OverflowError:
            return self.longest_delay


ONCE = RetryRule()


@dataclass(frozen=True, slots=True)
class Limits:
    """How a task is executed: how often, and how long an attempt may take in seconds."""

    retry: RetryRule = ONCE
    timeout: float | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of work: what it waits for, and beside what it may run."""

    id: str
    group: str
    """Tasks of one group (a table) run one after another, except those that are parallel."""
    upstream: tuple[str, ...] = ()
    """Ids of tasks, or groups: then all tasks of the group. Names outside the graph are not waited for."""
    is_parallel: bool = False
    limits: Limits = NO_LIMITS


@dataclass(frozen=True, slots=True)
class Skip:
    """A task that cannot run any more, and the tasks because of which it cannot: failed, cancelled or skipped themselves."""

    task: Task
    because: tuple[str, ...]


@dataclass(slots=True)
class _State:
    stage: Stage = Stage.WAITING
    attempts: int = 0
    open_inputs: int = 0
    deadline: float = math.inf


class _Group:
    """The running tasks of a group, how many of them want to be alone, and the tasks that wait for their turn."""

    __slots__ = ("alone", "parked", "running")

    def __init__(self) -> None:
        self.running = 0
        self.alone = 0
        self.parked: list[tuple[int, str]] = []


class Dispatch:
    """The state of one graph of tasks."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.tasks: Mapping[str, Task] = {task.id: task for task in tasks}
        self._order = {name: number for number, name in enumerate(self.tasks)}
        self._states = {name: _State() for name in self.tasks}
        self._open: dict[str, int] = {}  # how many tasks of each name, an id or a group, have not ended
        self._readers: dict[str, list[str]] = defaultdict(list)
        self._ready: list[tuple[int, str]] = []
        self._delayed: list[tuple[float, int, str]] = []
        self._groups: dict[str, _Group] = defaultdict(_Group)
        self._running: set[str] = set()
        self._blockers: dict[str, str] = {}  # for each name of which something has failed, a task that has
        self._connect()

    def _connect(self) -> None:
        for task in self.tasks.values():
            for name in _names_of(task):
                self._open[name] = self._open.get(name, 0) + 1
        for task in self.tasks.values():
            inputs = {name for name in task.upstream if name in self._open}
            self._states[task.id].open_inputs = len(inputs)
            for name in inputs:
                self._readers[name].append(task.id)
            if not inputs:
                self._ready.append((self._order[task.id], task.id))

    def __iter__(self) -> Iterator[tuple[Task, Stage]]:
        return ((task, self._states[name].stage) for name, task in self.tasks.items())

    def stage(self, task_id: str) -> Stage:
        """Where a task stands."""
        return self._states[task_id].stage

    def attempts(self, task_id: str) -> int:
        """How often a task was begun."""
        return self._states[task_id].attempts

    @property
    def running(self) -> frozenset[str]:
        """The tasks that are running."""
        return frozenset(self._running)

    def start(self, now: float, free: int, is_later: Callable[[str], bool] = lambda _: False) -> list[Task]:
        """Start what may run now, up to `free` tasks, in the order of the graph.

        Tasks that are better done later start only when there is nothing else.
        """
        while self._delayed and self._delayed[0][0] <= now:
            heapq.heappush(self._ready, heapq.heappop(self._delayed)[1:])
        started: list[Task] = []
        later: list[tuple[int, str]] = []
        while self._ready and len(started) < free and len(later) < _LOOK_AHEAD:
            place = heapq.heappop(self._ready)
            if is_later(place[1]):
                later.append(place)
            elif self._try_to_begin(place, now):
                started.append(self.tasks[place[1]])
        for place in later:
            if len(started) == free:
                heapq.heappush(self._ready, place)
            elif self._try_to_begin(place, now):
                started.append(self.tasks[place[1]])
        return started

    def _try_to_begin(self, place: tuple[int, str], now: float) -> bool:
        """Whether a task that was ready begins; one that must wait for its turn is parked."""
        task = self.tasks[place[1]]
        group = self._groups[task.group]
        if self._states[task.id].stage is not Stage.WAITING:
            return False
        if group.alone if task.is_parallel else group.running:
            heapq.heappush(group.parked, place)
            return False
        self._begin(task, now)
        return True

    def will_retry(self, task_id: str, verdict: Verdict) -> bool:
        """Whether a running task gets another attempt if this one ends so."""
        allowed = self.tasks[task_id].limits.retry.attempts
        return verdict is Verdict.RETRYABLE and self._states[task_id].attempts < allowed

    def finish(self, task_id: str, verdict: Verdict, now: float) -> list[Skip]:
        """An attempt of a running task ended; gives the tasks that cannot run because of it, in the order of the graph."""
        task, state = self.tasks[task_id], self._states[task_id]
        self._leave(task)
        if self.will_retry(task_id, verdict):
            state.stage = Stage.WAITING
            due = now + task.limits.retry.delay_after(state.attempts)
            heapq.heappush(self._delayed, (due, self._order[task_id], task_id))
            return []
        return self._end({task_id: _STAGES[verdict]})

    def settle(self, ends: Mapping[str, bool]) -> list[Skip]:
        """Tasks end without running: they have nothing to do (True), or cannot be done and stop what reads them (False)."""
        return self._end({name: Stage.SUCCEEDED if is_good else Stage.FAILED for name, is_good in ends.items()})

    def cancel(self, task_ids: Iterable[str] | None = None) -> tuple[list[Task], list[Skip]]:
        """Start these tasks, or any, no more: gives those that had not begun, and what is skipped because of them.

        What is running must be stopped by the caller, which then tells how it ended.
        """
        chosen = self.tasks if task_ids is None else task_ids
        waiting = [self.tasks[name] for name in chosen if self._states[name].stage is Stage.WAITING]
        return waiting, self._end({task.id: Stage.CANCELLED for task in waiting})

    def overdue(self, now: float) -> list[Task]:
        """The running tasks whose attempt has taken longer than it may, in the order of the graph."""
        late = [name for name in self._running if self._states[name].deadline <= now]
        return [self.tasks[name] for name in sorted(late, key=self._order.__getitem__)]

    def next_look(self) -> float | None:
        """When something is due without a result, a retry or a timeout; None when nothing is."""
        while self._delayed and self._states[self._delayed[0][2]].stage is not Stage.WAITING:
            heapq.heappop(self._delayed)  # it was cancelled: nobody waits until it would have been due
        deadlines = (self._states[name].deadline for name in self._running)
        soonest = min(deadlines, default=math.inf)
        soonest = min(soonest, self._delayed[0][0]) if self._delayed else soonest
        return None if soonest == math.inf else soonest

    def _begin(self, task: Task, now: float) -> None:
        group, state = self._groups[task.group], self._states[task.id]
        group.running += 1
        group.alone += not task.is_parallel
        self._running.add(task.id)
        state.stage = Stage.RUNNING
        state.attempts += 1
        state.deadline = math.inf if task.limits.timeout is None else now + task.limits.timeout

    def _leave(self, task: Task) -> None:
        """The task runs no more. The next one that wants to be alone gets its turn, and every parallel one before it."""
        group = self._groups[task.group]
        group.running -= 1
        group.alone -= not task.is_parallel
        self._running.discard(task.id)
        while group.parked:
            place = heapq.heappop(group.parked)
            if self._states[place[1]].stage is not Stage.WAITING:
                continue  # it was cancelled: its turn goes to the next one
            heapq.heappush(self._ready, place)
            if not self.tasks[place[1]].is_parallel:
                break

    def _end(self, stages: Mapping[str, Stage]) -> list[Skip]:
        for name, stage in stages.items():  # all before any is closed: none of them is skipped because of another
            self._states[name].stage = stage
        for name, stage in stages.items():
            self._close(self.tasks[name], is_good=stage is Stage.SUCCEEDED)
        bad = [name for name, stage in stages.items() if stage is not Stage.SUCCEEDED]
        return self._skip(each for name in bad for each in _names_of(self.tasks[name]))

    def _close(self, task: Task, *, is_good: bool) -> None:
        """The task has ended: its readers wait for one thing less, or are blocked."""
        for name in _names_of(task):
            self._open[name] -= 1
            if not is_good:
                self._blockers.setdefault(name, task.id)
            elif not self._open[name] and name not in self._blockers:
                self._release(name)

    def _release(self, name: str) -> None:
        for reader in self._readers.get(name, ()):
            state = self._states[reader]
            state.open_inputs -= 1
            if not state.open_inputs and state.stage is Stage.WAITING:
                heapq.heappush(self._ready, (self._order[reader], reader))

    def _skip(self, names: Iterable[str]) -> list[Skip]:
        """Skip what reads these names, and what reads that."""
        skipped: list[Skip] = []
        todo = deque(names)
        while todo:
            for reader in self._readers.get(todo.popleft(), ()):
                state, task = self._states[reader], self.tasks[reader]
                if state.stage is Stage.WAITING:
                    state.stage = Stage.SKIPPED
                    found = dict.fromkeys(self._blockers[name] for name in task.upstream if name in self._blockers)
                    skipped.append(Skip(task, tuple(found)))
                    self._close(task, is_good=False)
                    todo.extend(_names_of(task))
        return sorted(skipped, key=lambda skip: self._order[skip.task.id])


_STAGES = {
    Verdict.SUCCEEDED: Stage.SUCCEEDED,
    Verdict.FAILED: Stage.FAILED,
    Verdict.RETRYABLE: Stage.FAILED,
    Verdict.CANCELLED: Stage.CANCELLED,
}


def _names_of(task: Task) -> tuple[str, ...]:
    return (task.id,) if task.id == task.group else (task.id, task.group)
