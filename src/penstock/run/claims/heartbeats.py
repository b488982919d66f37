"""Signs of life: one append per process and interval, for all builds of the process that are executing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from penstock.errors import EventLogError
from penstock.eventlog.contract import EventLog
from penstock.model.event_logs import DEADLINE_SECONDS
from penstock.model.recording import BuildRecorder
from penstock.model.status import BuildStatus, IllegalMoveError

BEAT_SECONDS = DEADLINE_SECONDS / 4


class Heartbeats:
    """A thread that writes heartbeats while it is open. A log that cannot be reached is asked again at the next one.

    Close it before the end of a build is recorded: a heartbeat that is written after it would open the build again.
    """

    def __init__(
        self,
        log: EventLog,
        recorders: Sequence[BuildRecorder],
        seconds: float = BEAT_SECONDS,
        *,
        is_taken_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._log = log
        self._recorders = recorders
        self._seconds = seconds
        self._is_taken_over = is_taken_over
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-heartbeat", daemon=True)

    def beat(self) -> None:
        """Show that the builds are alive; too late for those of a process that was suspended until another took over."""
        if self._is_taken_over():
            return
        events = []
        for recorder in self._recorders:
            if recorder.history.status is BuildStatus.EXECUTING:
                with suppress(IllegalMoveError):  # it has ended just now
                    events.append(recorder.build(BuildStatus.EXECUTING))
        if events:
            self._log.append(events)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(self._seconds):
            with suppress(EventLogError):
                self.beat()
