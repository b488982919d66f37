"""The embedded log: one SQLite file, `sqlite:///path/to/log.db`. It needs only the standard library."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from penstock.errors import ConfigError, EventLogError
from penstock.eventlog.contract import AppendError, Position, Row, StorageTroubleError, still_there
from penstock.eventlog.deadlines import within
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold import Select, Tables
from penstock.eventlog.sql import SqlEventLog
from penstock.eventlog.store import SqliteStore
from penstock.model.clock import Clock
from penstock.model.event_log_uris import EventLogUri

_SYNCHRONOUS = ("NORMAL", "FULL", "OFF")


class SqliteEventLog(SqlEventLog):
    """A log in one SQLite file, for any number of processes on one machine."""

    def __init__(self, uri: EventLogUri, store: SqliteStore) -> None:
        super().__init__(uri.shown, uri.deadline_seconds)
        self.store = store

    def select(self, sql: str, parameters: Sequence[object] = (), *, strict: bool = False) -> list[Row]:  # noqa: ARG002
        """Run a query of `projections`; always strict, because every reader sees the same file."""
        try:
            return self.store.select(sql, parameters)
        except sqlite3.Error as error:
            raise _to_error(f"{self.uri} cannot be read", error) from error

    def _migrate(self, before: int, after: int) -> str | None:
        with self._changing():
            return self.store.migrate(before, after)

    @contextmanager
    def _transaction(self) -> Iterator[Tables]:
        with self._changing(), self.store.tables() as tables:
            yield tables

    def _write(self, batch: Sequence[Encoded]) -> Position:
        try:
            return self.store.append(batch)
        except sqlite3.Error as error:
            raise AppendError(
                f"{len(batch)} events could not be written to {self.uri}: {error}",
                [item.event for item in batch],
                hint=_hint(error),
            ) from error

    def scrub(self) -> None:
        """Write the file again: pages keep bytes of what was changed."""
        with self._changing():
            if not self.store.compact():
                raise still_there(self.uri)

    def _snapshot(self) -> AbstractContextManager[Select]:
        return self.store.snapshot()

    def check_storage(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        found = [str(row[0]) for row in self.select("PRAGMA integrity_check")]
        return [] if found == ["ok"] else [f"the file is damaged: {line}" for line in found]

    def repair_storage(self) -> None:
        """Build the indexes again."""
        with self._changing(), self.store.transaction() as connection:
            connection.execute("REINDEX")

    def _compact(self) -> None:
        with self._changing():
            self.store.compact()

    def _size(self) -> tuple[int, int]:
        return self.store.size()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _to_error(f"{self.uri} cannot be changed", error) from error

    def close(self) -> None:
        """Close the file."""
        self.store.close()


def open_log(uri: EventLogUri, clock: Clock) -> SqliteEventLog:
    """Open or create the log of `sqlite:///relative` or `sqlite:////absolute`; a file that is read-only can be read."""
    synchronous = uri.options.get("synchronous", "normal").upper()
    if synchronous not in _SYNCHRONOUS:
        raise ConfigError(f"{uri.shown} has an invalid option", hint="use synchronous=normal|full|off")
    uri = uri.below(Path.cwd())
    path = Path(uri.path)
    try:
        with within(uri.deadline_seconds):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise IsADirectoryError("a folder is in the place of the file")
            store = SqliteStore(path, clock=clock, synchronous=synchronous, busy_seconds=uri.deadline_seconds)
    except (sqlite3.DatabaseError, OSError) as error:
        raise _to_error(f"the event log {uri.shown} cannot be opened", error) from error
    return SqliteEventLog(uri, store)


def _to_error(what: str, error: Exception) -> EventLogError:
    kind = StorageTroubleError if _is_locked(error) else EventLogError
    return kind(f"{what}: {error}", hint=_hint(error))


def _hint(error: Exception) -> str:
    if _is_locked(error):
        return "another process has locked the database; `deadline_seconds` in the URI is how long to wait for it"
    if any(said in str(error) for said in ("malformed", "not a database")):
        return "the file is damaged: restore a backup of it, or move it away: a new log is made"
    if isinstance(error, IsADirectoryError):
        return "move the folder away: a new log is made"
    if "readonly" in str(error):
        return "the file or its folder can only be read by this user; a log can be queried there, but not written"
    return (
        "check the permissions of the folder and the free space; "
        "if the file is not an event log, set `event_log` to another file"
    )


def _is_locked(error: Exception) -> bool:
    return "locked" in str(error)
