"""The embedded log: one SQLite file, `sqlite:///path/to/log.db`. It needs only the standard library."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.errors import ConfigError, EventLogError
from penstock.eventlog.contract import AppendError, Entry, Position, Row
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold import Tables
from penstock.eventlog.sql import SqlEventLog
from penstock.eventlog.store import BUSY_SECONDS, SqliteStore
from penstock.model.clock import Clock

_SYNCHRONOUS = ("NORMAL", "FULL", "OFF")


class SqliteEventLog(SqlEventLog):
    """A log in one SQLite file, for any number of processes on one machine."""

    def __init__(self, uri: str, store: SqliteStore) -> None:
        super().__init__(uri)
        self.store = store

    def select(self, sql: str, parameters: Sequence[object] = (), *, strict: bool = False) -> list[Row]:  # noqa: ARG002
        """Run a query of `projections`; always strict, because every reader sees the same file."""
        try:
            return self.store.select(sql, parameters)
        except sqlite3.Error as error:
            raise EventLogError(f"{self.uri} cannot be read: {error}") from error

    def _migrate(self, before: int, after: int) -> str | None:
        return self.store.migrate(before, after)

    def _transaction(self) -> AbstractContextManager[Tables]:
        return self.store.tables()

    def _write(self, batch: Sequence[Encoded]) -> Position:
        try:
            return self.store.append(batch)
        except sqlite3.OperationalError as error:
            raise AppendError(
                f"{len(batch)} events could not be written to {self.uri}: {error}",
                [item.event for item in batch],
                hint="another process has locked the database, or the disk is full or read-only",
            ) from error

    def replace(self, entries: Sequence[Entry]) -> None:
        """Give events a new payload; the old one is overwritten in the file, too."""
        with self.store.overwriting():
            super().replace(entries)

    def check_storage(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        found = [str(row[0]) for row in self.select("PRAGMA integrity_check")]
        return [] if found == ["ok"] else [f"the file is damaged: {line}" for line in found]

    def repair_storage(self) -> None:
        """Build the indexes again."""
        with self.store.transaction() as connection:
            connection.execute("REINDEX")

    def _compact(self) -> None:
        self.store.compact()

    def _size(self) -> tuple[int, int]:
        return self.store.size()

    def close(self) -> None:
        """Close the file."""
        self.store.close()


def open_log(uri: str, clock: Clock) -> SqliteEventLog:
    """Open or create the log of `sqlite:///relative`, `sqlite:////absolute`; `?synchronous=full&busy_seconds=5`."""
    path, synchronous, busy_seconds = _read_uri(uri)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        store = SqliteStore(path, clock=clock, synchronous=synchronous, busy_seconds=busy_seconds)
    except (sqlite3.DatabaseError, OSError) as error:
        raise EventLogError(
            f"the event log {path} cannot be opened: {error}",
            hint="check the permissions of the folder; if the file is not an event log, set `event_log` to another file",
        ) from error
    return SqliteEventLog(f"sqlite:///{path}", store)


def _read_uri(uri: str) -> tuple[Path, str, float]:
    parts = urlsplit(uri)
    if parts.netloc or len(parts.path) < 2:
        raise ConfigError(
            f"{uri} does not name a file",
            hint="use sqlite:///folder/log.db, or sqlite:////folder/log.db for an absolute path",
        )
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    synchronous = options.pop("synchronous", "normal").upper()
    busy = options.pop("busy_seconds", str(BUSY_SECONDS))
    if options or synchronous not in _SYNCHRONOUS or not busy.replace(".", "", 1).isdigit():
        raise ConfigError(
            f"{uri} has an unknown or invalid option",
            hint="use synchronous=normal|full|off or busy_seconds=N",
        )
    return Path(unquote(parts.path[1:])), synchronous, float(busy)
