"""A session for each job run that runs at the same time as others, so that one can be cancelled and the others go on.

Spark interrupts all work of a session, from any thread, but cannot tell the threads of one session apart. The first job run
uses the session itself; each further one at the same time uses a sibling.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import CancelledError
from penstock.session.siblings import family_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True, eq=False)
class JobSession:
    """The session of one attempt of a job run."""

    main: SparkSession
    session: SparkSession
    guard: Callable[[], None] = lambda: None
    """Raises an error when the job run may not write any more, because another build has taken over."""
    number: int | None = None
    """The number of the job run's claim in the event log."""
    fences: tuple[int, ...] = ()
    """The numbers of job runs that may still be writing the same partitions, and must be fenced first."""
    _cancelled: threading.Event = field(default_factory=threading.Event)
    _is_over: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Cancel what Spark is doing for the job run; nothing that it still tries to write is written."""
        with self._lock:
            if not self._is_over:
                self._cancelled.set()
                cancel_work(self.session)

    def end(self) -> None:
        """The session is free: a cancel that comes late must not hit the next job run that uses it."""
        with self._lock:
            self._is_over = True

    def check(self) -> None:
        """CancelledError when the job run was cancelled; an error when it has lost its claim."""
        if self.is_cancelled:
            raise CancelledError("it was cancelled; nothing was written")
        self.guard()


_current: ContextVar[JobSession | None] = ContextVar("penstock_job_session", default=None)


def cancel_work(session: SparkSession) -> None:
    """Cancel what Spark is doing for this session and its siblings; threads that wait for it get an error."""
    for each in family_of(session):
        each.interruptAll()


def session_of(main: SparkSession) -> SparkSession:
    """The session that the current job run uses in place of this one."""
    job = _current.get()
    return job.session if job is not None and job.main is main else main


def current_job() -> JobSession | None:
    """The job run that this line of execution works for."""
    return _current.get()


def check_not_cancelled() -> None:
    """An error when the current job run was cancelled or has lost its claim: call it before something is written."""
    job = _current.get()
    if job is not None:
        job.check()


@dataclass(slots=True)
class JobSessions:
    """The sessions of job runs that run at the same time; siblings are opened when they are needed."""

    main: SparkSession
    open_sibling: Callable[[], AbstractContextManager[SparkSession]]
    _free: list[SparkSession] = field(default_factory=list)
    _is_main_free: bool = True
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stack: ExitStack = field(default_factory=ExitStack)

    @contextmanager
    def use(self) -> Iterator[JobSession]:
        """A session for a job run, as long as the block lasts; `session_of` gives it there."""
        job = JobSession(self.main, self._take())
        token = _current.set(job)
        try:
            yield job
        finally:
            _current.reset(token)
            job.end()
            self._give_back(job.session)

    def close(self) -> None:
        """Close the siblings."""
        self._stack.close()

    def _take(self) -> SparkSession:
        with self._lock:
            if self._is_main_free:
                self._is_main_free = False
                return self.main
            if self._free:
                return self._free.pop()
            return self._stack.enter_context(self.open_sibling())

    def _give_back(self, session: SparkSession) -> None:
        with self._lock:
            if session is self.main:
                self._is_main_free = True
            else:
                self._free.append(session)
