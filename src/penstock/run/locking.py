"""One run at a time per project: a lock file names the running process. Across machines, the load numbers of tables decide."""

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

_IDENTITY = "run.id"


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the lock, as far as it is known."""

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
    """Hold the project's lock for the block; wait for another run if asked to, otherwise raise an error that names it.

    Waiting ends early when `is_stopped` says so.
    Yields the previous holder if it died without releasing the lock.
    """
    with _trouble_named(state_folder):
        state_folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(state_folder / "run.lock")
        note = state_folder / "run.holder.json"
        try:
            lock.acquire(timeout=0)
        except Timeout:
            _wait(lock, note, wait_seconds, on_wait, is_stopped)
    died = read_holder(note) if note.exists() else None
    try:
        note.write_text(json.dumps({field: getattr(holder, field) for field in Holder.__slots__}))
        yield died
    finally:
        note.unlink(missing_ok=True)
        lock.release()


@contextmanager
def _trouble_named(state_folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StorageError(
            f"cannot write in {state_folder}: {reason}", hint="check the owner and the permissions of the folder"
        ) from None


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
            f"another run has locked this project: {read_holder(note)}",
            hint="wait for it to end, or use --wait SECONDS to wait longer",
        ) from None


def identify_lock(state_folder: Path, new_id: str) -> str:
    """The id of the lock that protects this folder; whoever holds the lock asks for it, and the first one gives it `new_id`.

    A copied folder has a lock of its own, so it gets an id of its own: the file knows its own inode.
    """
    file = state_folder / _IDENTITY
    try:
        known = json.loads(file.read_text())
        if known["inode"] == file.stat().st_ino:
            return str(known["id"])
    except (OSError, ValueError, TypeError, KeyError):
        pass
    scratch = state_folder / f".{_IDENTITY}.{os.getpid()}"
    with _trouble_named(state_folder):
        scratch.touch()
        scratch.write_text(json.dumps({"id": new_id, "inode": scratch.stat().st_ino}) + "\n")
        scratch.replace(file)
    return new_id


def read_holder(note: Path) -> Holder:
    """The current holder of the lock; unknown when the file cannot be read."""
    try:
        return Holder(**json.loads(note.read_text()))
    except (OSError, ValueError, TypeError):
        return Holder()


def this_process(build_request_id: str, since: str) -> Holder:
    """This process as a holder."""
    return Holder(build_request_id, os.getpid(), socket.gethostname(), since)
