"""Noticing cheaply that nothing has happened since the last look, so that a strict read need not look again."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Generic, TypeVar

from penstock.eventlog.store import SqliteStore

_SETTLED_NS = 100_000_000
"""The time of a folder stands still for some milliseconds: a second change within them would not show."""

Found = TypeVar("Found")
Folder = tuple[int, int] | None
"""The identity of the folder and when a file was last created in it or removed; None when that cannot be told."""


Look = tuple[sqlite3.Connection, int, int]
"""What a change of the projection by anyone would change: what its connection changed, and what others did."""


class Quiet(Generic[Found]):
    """What each thread found when it last looked, and how projection and log folder looked then."""

    def __init__(self, table: Path | None) -> None:
        self._log = f"{table}/_delta_log" if table is not None else None
        self._local = threading.local()

    def look(self, store: SqliteStore) -> Look:
        """Look at the projection."""
        connection = store.connection()
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        return connection, connection.total_changes, version

    def look_at_folder(self) -> Folder:
        """Look at the table's log folder; None in a store, or when something changed just now."""
        if self._log is None:
            return None
        try:
            status = os.stat(self._log)  # noqa: PTH116
        except OSError:
            return None
        return (status.st_ino, status.st_mtime_ns) if time.time_ns() - status.st_mtime_ns > _SETTLED_NS else None

    def note(self, look: Look, folder: Folder, found: Found) -> None:
        """Remember what was found; both looks must be from before."""
        self._local.last = (look, folder, found)

    def found(self, look: Look) -> tuple[Folder, Found] | None:
        """What was found when the projection looked like this, with the folder then."""
        last = getattr(self._local, "last", None)
        return last[1:] if last is not None and last[0] == look else None
