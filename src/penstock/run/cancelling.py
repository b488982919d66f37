"""Cancels that other processes ask for: they are events of the build, and the running build follows its log for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

from penstock.errors import EventLogError
from penstock.eventlog.contract import EventLog, Filter, Position
from penstock.model.events import BuildCancel, EventType, TaskCancel
from penstock.run.claims.book import is_takeover_message

POLL_SECONDS = 0.5

Stop = Callable[[str, str | None], None]
"""Ends the work on an item, or on all (None), for a reason."""


class _Jobs(Protocol):
    def item_of(self, job_run_id: str) -> str | None:
        """The item of a job run of this build."""


class CancelWatch:
    """A thread that sees cancels of one build and of its job runs while it is open."""

    def __init__(self, log: EventLog, build_request_id: str, jobs: _Jobs) -> None:
        self.reason: str | None = None
        """Why the whole build was cancelled."""
        self._log = log
        self._jobs = jobs
        self._stop: Stop = lambda _, __: None
        types = (EventType.BUILD_CANCEL, EventType.TASK_CANCEL)
        self._filter = Filter(event_types=types, build_request_ids=(build_request_id,))
        self._position = Position(0)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-cancels", daemon=True)

    def look(self) -> None:
        """Read what was asked for since the last look, and stop it."""
        for entry in self._log.read(self._position, self._filter, strict=True):
            self._position = entry.position
            payload = entry.event.payload
            if isinstance(payload, TaskCancel):
                if (item := self._jobs.item_of(payload.job_run_id)) is not None:
                    self._stop(_to_reason(payload.reason), item)
            elif isinstance(payload, BuildCancel) and not is_takeover_message(payload.reason):
                self.reason = self.reason or _to_reason(payload.reason)
                self._stop(self.reason, None)

    def watch(self, stop: Stop) -> Self:
        """Tell `stop` from now on, while the watch is open; what was asked for before counts too."""
        self._stop = stop
        self._position = Position(0)
        return self

    def __enter__(self) -> Self:
        with suppress(EventLogError):
            self.look()  # before anything starts
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(POLL_SECONDS):
            with suppress(EventLogError):
                self.look()


def _to_reason(text: str) -> str:
    return f"cancelled: {text}" if text else "cancelled"
