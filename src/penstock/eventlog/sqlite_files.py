"""Connecting to a SQLite file, also to one that can only be read.

A file in WAL mode needs two files beside it, `-wal` with the latest commits and `-shm`. Where they are missing and cannot
be made, SQLite reads the file only if it is told that nobody changes it (`immutable`). That holds as long as the file
stays as it is, which its snapshot tells; a writer elsewhere can change it, such as the machine that has it mounted
for writing.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from penstock.errors import EventLogError

_Facts = tuple[int, int, int]
"""Identity, size and time of a file."""
_NO_FILE: _Facts = (0, 0, 0)
_USE_WAL = "PRAGMA journal_mode = WAL"
_FIRST_PAUSE_SECONDS = 0.005

Snapshot = tuple[_Facts, _Facts]
"""What can be seen from outside about a file and its `-wal`."""


def connect(path: Path, timeout: float) -> tuple[sqlite3.Connection, Snapshot | None]:
    """Connect to a file, and bring a new one into WAL mode; a snapshot is given where the connection is to `immutable`."""
    connection = _connect(str(path), timeout)
    try:
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            _use_wal(connection, timeout)
    except sqlite3.OperationalError as error:
        connection.close()
        if not (_needs_to_write(error) and _is_read_only(path)):
            raise
    else:
        return connection, None
    snapshot = take_snapshot(path)
    _, (_, unread_bytes, _) = snapshot
    if unread_bytes:
        raise EventLogError(
            f"the latest events of {path} are in {path.name}-wal, which cannot be read without write permission",
            hint="open the log once where it can be written, for example with `penstock log info`; or copy both files",
        )
    return _connect(f"file:{quote(str(path))}?mode=ro&immutable=1", timeout, uri=True), snapshot


def take_snapshot(path: Path) -> Snapshot:
    """Look at a file and its `-wal`."""
    return _facts(str(path)), _facts(f"{path}-wal")


def _facts(path: str) -> _Facts:
    try:
        found = os.stat(path)  # noqa: PTH116  # a Path would cost more than the answer
    except FileNotFoundError:
        return _NO_FILE
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _is_read_only(path: Path) -> bool:
    return path.is_file() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _use_wal(connection: sqlite3.Connection, timeout: float) -> None:
    """Bring a new file into WAL mode. SQLite itself does not wait for another process that does so too."""
    try:
        connection.execute(_USE_WAL)
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
        from penstock.eventlog.retry import keep_trying

        keep_trying(lambda: connection.execute(_USE_WAL), _is_busy, timeout, _FIRST_PAUSE_SECONDS)


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _needs_to_write(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}


def _connect(address: str, timeout: float, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(address, timeout=timeout, isolation_level=None, check_same_thread=False, uri=uri)
