"""Group commit: while one thread writes, the events of the others wait and are then written in one batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from penstock.eventlog.contract import AppendError, Position
from penstock.eventlog.deadlines import DeadlinePassedError, remaining
from penstock.eventlog.encoding import Encoded

MAX_GROUP = 10_000
"""The most events in one commit, unless a single call has more."""


class _Waiting:
    __slots__ = ("batch", "done", "error", "position")

    def __init__(self, batch: Sequence[Encoded]) -> None:
        self.batch = batch
        self.done = False
        self.position: Position | None = None
        self.error: BaseException | None = None


class GroupCommit:
    """Combines the calls of many threads into few writes; each call returns when its own events are written, in call order."""

    def __init__(self, write: Callable[[Sequence[Encoded]], Position]) -> None:
        self._write = write
        self._queue: list[_Waiting] = []
        self._queue_lock = threading.Lock()
        self._writer = threading.Lock()

    def write(self, batch: Sequence[Encoded]) -> Position:
        """Write a batch together with others that are waiting; raises the error of the write, with the events of this call."""
        mine = _Waiting(batch)
        with self._queue_lock:
            self._queue.append(mine)
        if not self._writer.acquire(timeout=remaining(threading.TIMEOUT_MAX)):
            self._withdraw(mine)
            raise DeadlinePassedError("earlier appends of this process have not ended")
        try:
            while not mine.done:
                self._write_group(self._take())
        finally:
            self._writer.release()
        if mine.error is not None:
            raise _for_call(mine.error, batch)
        assert mine.position is not None  # noqa: S101
        return mine.position

    def _withdraw(self, waiting: _Waiting) -> None:
        """Do not write a batch any more, unless another thread is writing it now: that does no harm."""
        with self._queue_lock:
            if waiting in self._queue:
                self._queue.remove(waiting)

    def _take(self) -> list[_Waiting]:
        with self._queue_lock:
            size = count = 0
            while count < len(self._queue) and size < MAX_GROUP:
                size += len(self._queue[count].batch)
                count += 1
            group, self._queue = self._queue[:count], self._queue[count:]
        return group

    def _write_group(self, group: list[_Waiting]) -> None:
        try:
            position = self._write([item for waiting in group for item in waiting.batch])
        except BaseException as error:  # noqa: BLE001
            if len(group) > 1 and isinstance(error, Exception) and not isinstance(error, AppendError):
                # It may be the fault of one call; the others must not fail because of it.
                for waiting in group:
                    self._write_group([waiting])
                return
            for waiting in group:
                waiting.error = error
                waiting.done = True
        else:
            for waiting in group:
                waiting.position = position
                waiting.done = True


def _for_call(error: BaseException, batch: Sequence[Encoded]) -> BaseException:
    if isinstance(error, AppendError):
        mine = AppendError(error.message, [item.event for item in batch], hint=error.hint)
        mine.__cause__ = error.__cause__
        return mine
    return error
