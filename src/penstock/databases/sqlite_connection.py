"""Connections to SQLite files that can only read, and what is wrong when one cannot be made."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from penstock.errors import SourceError

_UNREADABLE = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,  # the -shm file cannot be made, and there is a -wal file
    sqlite3.SQLITE_READONLY,
}
_DECODE = re.compile(r"Could not decode to UTF-8 column '(.*?)' with text", re.DOTALL)


def connect(path: str, wait_seconds: float) -> sqlite3.Connection:
    """Connect to a file that exists, for reading only."""
    if not Path(path).is_file():
        problem = "is a folder" if Path(path).is_dir() else "does not exist"
        raise SourceError(
            f"the SQLite file {path} {problem}", hint="check the path; that of a load is relative to the project"
        )
    connection = _connect(path, wait_seconds, "mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            raise
        # In WAL mode, SQLite needs files beside it that it cannot make here. It reads the file alone when it is told that
        # nobody changes it; then it would not see what a -wal file holds.
        if _holds_commits(f"{path}-wal"):
            raise
        return _connect(path, wait_seconds, "mode=ro&immutable=1")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Errors of SQLite in the block become ours; they never show a value."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from None


def _explain(path: str, error: sqlite3.Error) -> SourceError:
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return SourceError(
            f"the SQLite file {path} is locked by another program", hint="try again when it is done", retryable=True
        )
    if code in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
        problem = "is not a SQLite database" if code == sqlite3.SQLITE_NOTADB else "is damaged"
        return SourceError(
            f"the file {path} {problem}", hint="check the file with `sqlite3 FILE 'PRAGMA integrity_check'`"
        )
    undecoded = _DECODE.match(str(error))
    if undecoded:
        return SourceError(
            f"column {undecoded[1]!r} in the SQLite file {path} has a text that is not UTF-8",
            hint="fix the value, load a view that has hex(...) of the column, or leave it out with columns=",
        )
    if code in _UNREADABLE:
        return SourceError(
            f"the SQLite file {path} cannot be read: {error}",
            hint="check its permissions, and those of its folder: a file in WAL mode needs -wal and -shm files beside it",
        )
    return SourceError(f"SQLite cannot read {path}: {error}", hint="check the table, and the condition in where=")


def _connect(path: str, wait_seconds: float, options: str) -> sqlite3.Connection:
    address = f"file:{quote(str(Path(path).absolute()))}?{options}"
    return sqlite3.connect(address, timeout=wait_seconds, isolation_level=None, check_same_thread=False, uri=True)


def _holds_commits(wal: str) -> bool:
    try:
        return os.stat(wal).st_size > 0  # noqa: PTH116
    except FileNotFoundError:
        return False
