"""The deadline of the operation that a thread is in, for everything below it that can wait.

    with within(seconds):               # an append, a read, opening a log
        lock.acquire(timeout=remaining(30))
        in_time(lambda: store.read(path))

A deadline belongs to the thread and covers every call in the block, so that waiting for a lock, several attempts and
several requests share one limit.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import ClassVar, Generic, NamedTuple, TypeVar

Result = TypeVar("Result")

_IDLE_SECONDS = 1.0
_THREAD = "penstock-event-log-call"


class _Deadline(NamedTuple):
    end: float
    """By the monotonic clock."""
    is_hard: bool


_current: ContextVar[_Deadline | None] = ContextVar("penstock_event_log_deadline", default=None)


class DeadlinePassedError(TimeoutError):
    """Something did not answer or end before the deadline of the operation."""


@contextmanager
def within(seconds: float, *, is_hard: bool = False) -> Iterator[None]:
    """Give the block this much time; a block inside another one starts with no more than is left.

    Progress in the block extends the time of the blocks around it, too, except for hard ones.
    """
    outer = _current.get()
    token = _current.set(_Deadline(time.monotonic() + remaining(seconds), is_hard))
    try:
        yield
    finally:
        inner = _current.get()
        _current.reset(token)
        if outer is not None and inner is not None and not outer.is_hard and inner.end > outer.end:
            _current.set(outer._replace(end=inner.end))


def extend(seconds: float) -> None:
    """Give the block this much time again, after a part of a long work was done: it does not hang."""
    deadline = _current.get()
    if deadline is not None:
        _current.set(deadline._replace(end=time.monotonic() + seconds))


def remaining(at_most: float) -> float:
    """How much of the current deadline is left, but not more than this; all of it where there is no deadline."""
    deadline = _current.get()
    return at_most if deadline is None else max(0.0, min(at_most, deadline.end - time.monotonic()))


def has_deadline() -> bool:
    """Whether the thread is in an operation with a deadline."""
    return _current.get() is not None


def has_passed() -> bool:
    """Whether there is a deadline and no time is left."""
    deadline = _current.get()
    return deadline is not None and time.monotonic() >= deadline.end


def in_time(
    work: Callable[[], Result], discard: Callable[[Result], object] | None = None, *, often: bool = False
) -> Result:
    """Do work that may never return, and wait for it only until the deadline.

    The work runs in another thread, which is left behind when the deadline passes. The work must end sooner or later by
    itself, and must hold no lock. `discard` gets a result that comes too late. Work that is done `often` shares threads.
    """
    deadline = _current.get()
    if deadline is None:
        return work()
    attempt = _Attempt(work, discard)
    if often:
        _start(attempt.run)
    else:
        threading.Thread(target=attempt.run, name=_THREAD, daemon=True).start()
    return attempt.wait(deadline.end - time.monotonic())


class _Attempt(Generic[Result]):
    """One call of the work, and what came of it."""

    def __init__(self, work: Callable[[], Result], discard: Callable[[Result], object] | None) -> None:
        self._work = work
        self._discard = discard
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._abandoned = False
        self._results: list[Result] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            self._error = error
        with self._lock:
            self._ended.set()
            late = self._abandoned
        if late and self._results and self._discard is not None:
            self._discard(self._results[0])

    def wait(self, seconds: float) -> Result:
        if not self._ended.wait(max(0.0, seconds)):
            with self._lock:
                self._abandoned = not self._ended.is_set()
            if self._abandoned:
                raise DeadlinePassedError("no answer in time")
        if self._error is not None:
            raise self._error
        return self._results[0]


class _Worker:
    """A thread that does one work after the other and ends when there is none: a new thread is slow in Rust libraries."""

    idle: ClassVar[list[_Worker]] = []

    def __init__(self) -> None:
        self.works: SimpleQueue[Callable[[], object]] = SimpleQueue()
        threading.Thread(target=self._run, name=_THREAD, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                work = self.works.get(timeout=_IDLE_SECONDS)
            except Empty:
                with suppress(ValueError):  # it was just taken: one more work comes
                    self.idle.remove(self)
                    return
                continue
            work()
            del work
            self.idle.append(self)


def _start(work: Callable[[], object]) -> None:
    try:
        worker = _Worker.idle.pop()
    except IndexError:
        worker = _Worker()
    worker.works.put(work)


os.register_at_fork(after_in_child=_Worker.idle.clear)  # the threads are not in the child
