"""Locks of one project on one machine: pipeline runs share it, maintenance has it alone; and which builds are alive.

Each build holds a lock on a file of its own until its process ends, however it ends: so the next one knows which builds are
dead. Between machines, claims in the event log and the load numbers of tables decide.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from penstock.errors import ConcurrentRunError, StorageError
from penstock.storage.local import is_misplaced

_IDENTITY = "run.id"
_BUILDS = "builds"
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Holder:
    """The process of a build, as far as it is known."""

    build_request_id: str = "unknown"
    process: int = 0
    host: str = "unknown"
    since: str = "unknown"

    def __str__(self) -> str:
        return f"run {self.build_request_id} (process {self.process} on {self.host}, since {self.since})"


@dataclass(slots=True)
class Alive:
    """The proof that a build's process has not ended: a lock on a file of its own."""

    path: Path
    _file: TextIO | None = None

    def take(self, wait_seconds: float = 0.0) -> bool:
        """Whether nobody else has it: then the build is ours, or its process has ended."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + wait_seconds
        while (found := _flock(self.path, fcntl.LOCK_EX)) is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        self._file = found
        return found is not None

    def note(self, holder: Holder) -> None:
        """Say who works now."""
        if self._file is not None:
            self._file.truncate(0)
            self._file.write(json.dumps({name: getattr(holder, name) for name in Holder.__slots__}))
            self._file.flush()

    def release(self) -> None:
        """The build has ended."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            self._file.close()
            self._file = None


def alive_file(state_folder: Path, build_request_id: str) -> Alive:
    """The file that shows whether a build of this folder is alive."""
    return Alive(state_folder / _BUILDS / f"{build_request_id}.json")


def find_working(state_folder: Path) -> list[Holder]:
    """The builds of this folder that are at work now."""
    found = []
    for note in sorted((state_folder / _BUILDS).glob("*.json")):
        probe = _flock(note, fcntl.LOCK_SH)
        if probe is not None:  # its process has ended
            probe.close()
        elif (holder := _read(note)) is not None:
            found.append(holder)
    return found


@contextmanager
def hold_project(
    state_folder: Path,
    *,
    alive: Alive,
    holder: Holder,
    is_shared: bool,
    wait_seconds: float,
    on_wait: Callable[[Holder], None],
    is_stopped: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold the project's lock for the block; wait for others if asked to, otherwise raise an error that names one.

    Pipeline runs share it; maintenance has it alone. Waiting ends early when `is_stopped` says so.
    """
    lock = _Lock(state_folder, is_shared)
    try:
        with trouble_named(state_folder):
            state_folder.mkdir(parents=True, exist_ok=True)
            if not lock.try_to_take():
                _wait(lock, wait_seconds, on_wait, is_stopped)
            alive.note(holder)
        yield
    finally:
        lock.release()


@dataclass(slots=True)
class _Lock:
    """A lock that many can share, or one can have alone. Whoever waits to have it alone lets nobody else pass the gate."""

    folder: Path
    is_shared: bool
    _gate: TextIO | None = None
    _lock: TextIO | None = None

    def try_to_take(self) -> bool:
        """Whether it is ours now."""
        self._gate = self._gate or _flock(self.folder / "run.gate", fcntl.LOCK_EX)
        if self._gate is not None:
            self._lock = _flock(self.folder / "run.lock", fcntl.LOCK_SH if self.is_shared else fcntl.LOCK_EX)
            if self.is_shared:
                self._gate.close()
                self._gate = None
        return self._lock is not None

    def release(self) -> None:
        """Let others have it."""
        for file in (self._lock, self._gate):
            if file is not None:
                file.close()


def _wait(lock: _Lock, wait_seconds: float, on_wait: Callable[[Holder], None], is_stopped: Callable[[], bool]) -> None:
    deadline = time.monotonic() + wait_seconds
    if wait_seconds > 0:
        on_wait(_first(lock.folder))
    while not lock.try_to_take():
        if time.monotonic() >= deadline or is_stopped():
            raise ConcurrentRunError(
                f"another run has locked this project: {_first(lock.folder)}",
                hint="wait for it to end, or use --wait SECONDS to wait longer",
            )
        time.sleep(_POLL_SECONDS)


def _first(state_folder: Path) -> Holder:
    return next(iter(find_working(state_folder)), Holder())


def _flock(path: Path, how: int) -> TextIO | None:
    """The file, locked until it is closed or the process ends; None when another has it."""
    file = path.open("a+")
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


@contextmanager
def trouble_named(state_folder: Path) -> Iterator[None]:
    """Turn what the file system says about the folder, or about a file in it, into an error with its path."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        # A file is put in place under the name of the second path.
        place = Path(str(error.filename2 or error.filename or state_folder))
        obstacle = _find_obstacle(state_folder, place, is_folder=error.errno == errno.EEXIST)
        if obstacle is not None:
            what = "a link that leads nowhere" if obstacle.is_symlink() and not obstacle.exists() else "not a folder"
            raise StorageError(
                f"{obstacle} is {what}, and Penstock needs a folder there", hint="move it away, and run again"
            ) from None
        if is_misplaced(error) and place != state_folder:
            raise StorageError(
                f"{place} is in the place of a file of Penstock: {reason}", hint="move it away, and run again"
            ) from None
        raise StorageError(
            f"cannot write in {state_folder}: {reason}", hint="check the owner and the permissions of the folder"
        ) from None


def _find_obstacle(state_folder: Path, place: Path, *, is_folder: bool) -> Path | None:
    """What is in the place of a folder, from the state folder down to where a file, or a folder, was to be made."""
    below = [each for each in reversed(place.parents) if each.is_relative_to(state_folder)]
    folders = (state_folder, *below, *([place] if is_folder else []))
    return next((each for each in folders if os.path.lexists(each) and not each.is_dir()), None)


def identify_lock(state_folder: Path, new_id: str) -> str:
    """The id of the lock that protects this folder; the first who asks gives it `new_id`.

    A copied folder has a lock of its own, so it gets an id of its own: the file knows its own inode.
    """
    file = state_folder / _IDENTITY
    with trouble_named(state_folder):
        gate = (state_folder / f"{_IDENTITY}.lock").open("a")
        fcntl.flock(gate, fcntl.LOCK_EX)  # two runs may ask for it at the same time
        try:
            with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
                known = json.loads(file.read_text())
                if known["inode"] == file.stat().st_ino:
                    return str(known["id"])
            scratch = state_folder / f".{_IDENTITY}.{os.getpid()}"
            scratch.touch()
            scratch.write_text(json.dumps({"id": new_id, "inode": scratch.stat().st_ino}) + "\n")
            scratch.replace(file)
        finally:
            gate.close()
    return new_id


def _read(note: Path) -> Holder | None:
    try:
        return Holder(**json.loads(note.read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def this_process(build_request_id: str, since: str) -> Holder:
    """This process as a holder."""
    return Holder(build_request_id, os.getpid(), socket.gethostname(), since)
