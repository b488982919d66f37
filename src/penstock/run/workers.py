"""Worker threads that do not keep the process alive: a stopped run must end, even when user code in a thread does not.

The threads of `ThreadPoolExecutor` are waited for when Python exits, however long that takes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Workers(Generic[T]):
    """Up to `count` threads that work off a queue."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._threads: list[threading.Thread] = []
        self._working: dict[Future[T], threading.Thread] = {}
        self._given_up: set[threading.Thread] = set()
        self._queue: SimpleQueue[tuple[Future[T], Callable[[], T]] | None] = SimpleQueue()

    def submit(self, future: Future[T], work: Callable[[], T]) -> None:
        """Do the work as soon as a thread is free; the future gets its result."""
        self._queue.put((future, work))
        if len(self._threads) < self._count:
            name = f"penstock_{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()

    def give_up(self, future: Future[T]) -> None:
        """Nobody waits for this work any more, which does not end: another thread takes the place of its own."""
        thread = self._working.get(future)
        if thread is None:
            future.cancel()  # it has not begun, or has ended just now
            return
        self._count += 1
        self._given_up.add(thread)

    def close(self, *, wait: bool) -> None:
        """Begin nothing more; `wait` for what has begun."""
        with suppress(Empty):
            while True:
                queued = self._queue.get_nowait()
                if queued is not None:
                    queued[0].cancel()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads if wait else ():
            if thread not in self._given_up:
                thread.join()

    def _work(self) -> None:
        while (queued := self._queue.get()) is not None:
            future, work = queued
            self._working[future] = threading.current_thread()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
                future.set_exception(error)
            self._working.pop(future, None)
