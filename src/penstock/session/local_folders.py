"""Where Spark keeps shuffled and spilled rows while it works: below the project's state folder, where an erasure searches.

A folder belongs to a process, because the JVM remembers the first one. The process holds a lock on it for as long as it lives:
what a killed process left is found by its lock, which is free, and removed when the next session starts.
"""

from __future__ import annotations

import atexit
import shutil
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout

_ROOT = "spark"
_held: dict[Path, tuple[Path, FileLock]] = {}
"""The folders of this process by state folder, each with its lock."""


def hold_local_folder(state_folder: Path) -> Path:
    """The folder of this process; the folders of processes that have ended are removed."""
    root = (state_folder / _ROOT).resolve()
    if root in _held:
        return _held[root][0]
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / ".lock"):  # nobody takes a lock that was just made for a free one
        for path in root.glob("*.lock"):
            if path.name != ".lock":
                _remove_if_free(path)
        folder = root / uuid4().hex
        folder.mkdir()
        lock = FileLock(_lock_of(folder))
        lock.acquire()
    _held[root] = folder, lock
    atexit.register(_release, root)
    return folder


def has_shuffled_rows(state_folder: Path) -> bool:
    """Whether the folder of this process has files of shuffles."""
    folder, _ = _held.get((state_folder / _ROOT).resolve(), (None, None))
    return folder is not None and any(folder.glob("blockmgr-*/*/shuffle_*"))


def _remove_if_free(path: Path) -> None:
    try:
        with FileLock(path, timeout=0):
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            path.unlink(missing_ok=True)
    except Timeout:
        return


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _release(root: Path) -> None:
    folder, lock = _held.pop(root)
    shutil.rmtree(folder, ignore_errors=True)
    _lock_of(folder).unlink(missing_ok=True)
    lock.release()
