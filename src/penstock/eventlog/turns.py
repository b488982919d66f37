"""Turns of the writers on one machine: first come, first served, and a turn ends with the process that has it."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Turns:
    """A lock file with a queue. Whoever waits for the turn holds the queue, so that nobody can overtake it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def take(self, seconds: float) -> Iterator[None]:
        """Have the turn for the block; raises TimeoutError when it does not come in time."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        turn = self._try_now()
        if turn is None:
            turn = _Waiting(self._path).wait(seconds)
        try:
            yield
        finally:
            os.close(turn)

    def _try_now(self) -> int | None:
        queue = _open(_queue(self._path))
        try:
            fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
            turn = _open(self._path)
            try:
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(turn)
                return None
        except BlockingIOError:
            return None
        finally:
            os.close(queue)
        return turn


class _Waiting:
    """The kernel serves waiters in the order in which they came, but it cannot stop at a deadline: a thread waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._is_given_up = False
        self._turn: int | None = None
        self._error: OSError | None = None
        self._done = threading.Event()

    def wait(self, seconds: float) -> int:
        threading.Thread(target=self._block, name="penstock-turn", daemon=True).start()
        self._done.wait(seconds)
        with self._lock:
            if self._turn is not None:
                return self._turn
            self._is_given_up = True
        raise self._error or TimeoutError(f"other writers of this machine kept the log busy for {seconds:g} s")

    def _block(self) -> None:
        try:
            queue = _open(_queue(self._path))
            try:
                fcntl.flock(queue, fcntl.LOCK_EX)
                turn = _open(self._path)
                fcntl.flock(turn, fcntl.LOCK_EX)
            finally:
                os.close(queue)
        except OSError as error:
            self._error = error
        else:
            with self._lock:
                if self._is_given_up:
                    os.close(turn)
                else:
                    self._turn = turn
        self._done.set()


def _queue(path: Path) -> Path:
    return path.with_name(f"{path.name}.queue")


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
