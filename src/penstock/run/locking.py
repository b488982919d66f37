"""One run at a time per project: a lock file that says who runs. Across machines, the tables' own numbers decide."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from penstock.errors import ConcurrentRunError, StorageError


@dataclass(frozen=True, slots=True)
class Holder:
    """Who runs, as far as is known."""

    build_request_id: str = "unknown"
    process: int = 0
    host: str = "unknown"
    since: str = "unknown"

    def __str__(self) -> str:
        return f"run {self.build_request_id} (process {self.process} on {self.host}, since {self.since})"


@contextmanager
def hold_project(
    state_folder: Path,
    *,
    holder: Holder,
    wait_seconds: float,
    on_wait: Callable[[Holder], None],
    is_stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Holder | None]:
    """Hold the project's lock for the block; wait for another run if asked to, else say who runs.

    Waiting ends early when `is_stopped` says so.
    Gives the holder that died without letting go, if there was one.
    """
    try:
        state_folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(state_folder / "run.lock")
        note = state_folder / "run.holder.json"
        try:
            lock.acquire(timeout=0)
        except Timeout:
            _wait(lock, note, wait_seconds, on_wait, is_stopped)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StorageError(f"cannot write in {state_folder}: {reason}", hint="check the owner of the project") from None
    died = read_holder(note) if note.exists() else None
    try:
        note.write_text(json.dumps({field: getattr(holder, field) for field in Holder.__slots__}))
        yield died
    finally:
        note.unlink(missing_ok=True)
        lock.release()


def _wait(
    lock: FileLock,
    note: Path,
    wait_seconds: float,
    on_wait: Callable[[Holder], None],
    is_stopped: Callable[[], bool],
) -> None:
    other = read_holder(note)
    if wait_seconds > 0:
        on_wait(other)
    try:
        lock.acquire(timeout=wait_seconds, cancel_check=is_stopped)
    except Timeout:
        raise ConcurrentRunError(
            f"another run holds this project: {read_holder(note)}",
            hint="wait for it to end, or use --wait SECONDS to wait longer",
        ) from None


def read_holder(note: Path) -> Holder:
    """Who holds the project now; unknown when the note cannot be read."""
    try:
        return Holder(**json.loads(note.read_text()))
    except (OSError, ValueError, TypeError):
        return Holder()


def this_process(build_request_id: str, since: str) -> Holder:
    """The holder that stands for this process."""
    return Holder(build_request_id, os.getpid(), socket.gethostname(), since)
