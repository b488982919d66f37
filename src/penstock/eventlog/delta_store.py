"""Where a projection is kept: in a SQLite file that the processes of a machine share, or else in memory.

The file is a cache. A damaged one is replaced; where none can be written, each process keeps its own in memory.
"""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

from penstock.eventlog.delta_location import Location
from penstock.eventlog.store import SqliteStore
from penstock.eventlog.tables import SCHEMA_VERSION
from penstock.model.clock import Clock

logger = logging.getLogger(__name__)

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT}
_NO_PLACE = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}


def open_store(location: Location, clock: Clock) -> SqliteStore:
    """Open the local file, or make a new one when it is damaged or of another version."""
    path = location.projection
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        store = SqliteStore(path, clock=clock, busy_seconds=location.deadline_seconds)
    except Exception as error:  # noqa: BLE001
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY:  # a process uses it, so that it must stay
            raise location.trouble("cannot be opened, because its local projection is locked", error) from None
        return _make_new(location, clock, error)
    if store.version == SCHEMA_VERSION:
        return store
    store.close()
    return _make_new(location, clock, None)


def replace_store(location: Location, clock: Clock, failed: SqliteStore, error: sqlite3.Error) -> SqliteStore | None:
    """A store in place of one that failed; it may be empty. None when the failure will pass by itself."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
    if code in _BUSY or code == sqlite3.SQLITE_MISUSE or failed.path is None:
        return None
    if code in _NO_PLACE:
        return _in_memory(location, clock, error)
    if failed.is_replaced:
        return open_store(location, clock)
    return _make_new(location, clock, error)


def _make_new(location: Location, clock: Clock, error: Exception | None) -> SqliteStore:
    """A new file; processes that have the old one open notice that theirs is not there any more when it fails."""
    if error is not None:
        logger.warning(
            "the local projection of %s cannot be used and is rebuilt: %s", location.uri, location.describe(error)
        )
    path = location.projection
    try:
        for name in (path, *(Path(f"{path}{suffix}") for suffix in ("-wal", "-shm"))):
            name.unlink(missing_ok=True)
        return SqliteStore(path, clock=clock, busy_seconds=location.deadline_seconds)
    except (sqlite3.Error, OSError) as again:
        return _in_memory(location, clock, again)


def _in_memory(location: Location, clock: Clock, error: Exception) -> SqliteStore:
    logger.warning(
        "the local projection of %s cannot be kept in its cache folder (%s): this process keeps it in memory, and reads the "
        "whole log for it",
        location.uri,
        location.describe(error),
    )
    return SqliteStore(None, clock=clock)
