"""A SQLite database that holds events and states: the SQLite log itself, the memory log, and the local projection of
a remote one. Safe from many threads and processes: WAL, one writer at a time, a connection per thread.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import EventLogError
from penstock.eventlog.contract import NewerLogError, Position, Row
from penstock.eventlog.fold import Encoded, apply_events
from penstock.eventlog.tables import SCHEMA_VERSION, SQLITE_WORDS, create_statements

BUSY_SECONDS = 30.0
"""How long a writer waits for the others before it gives up."""

_LOOKUP = 500

SET_META = (
    "INSERT INTO penstock_meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)


class SqliteStore:
    """The tables of `tables` in one SQLite file, or in memory when no path is given."""

    def __init__(self, path: Path | None, *, synchronous: str = "NORMAL", busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self._synchronous = synchronous
        self._busy_seconds = busy_seconds
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._all_lock = threading.Lock()
        self._memory_lock = threading.RLock()
        self._memory = self._connect() if path is None else None
        self.version = self._prepare()

    def select(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a query."""
        if self._memory is not None:
            with self._memory_lock:
                return self._memory.execute(sql, parameters).fetchall()
        return self.connection().execute(sql, parameters).fetchall()

    def connection(self) -> sqlite3.Connection:
        """This thread's connection; a process made by fork gets its own, because SQLite forbids sharing."""
        if self._memory is not None:
            return self._memory
        local = self._local
        if getattr(local, "pid", None) != os.getpid():
            local.connection = self._connect()
            local.pid = os.getpid()
            with self._all_lock:
                self._all.append(local.connection)
        found: sqlite3.Connection = local.connection
        return found

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock; commits when the block ends, rolls back when it raises."""
        with self._memory_lock if self._memory is not None else self._no_lock():
            connection = self.connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def append(self, batch: Sequence[Encoded]) -> Position:
        """Write the events that are new behind the last one."""
        with self.transaction() as connection:
            last = int(self.meta(connection, "last_position") or 0)
            return self.insert(connection, batch, lambda index: last + 1 + index, last)

    def insert(
        self,
        connection: sqlite3.Connection,
        batch: Sequence[Encoded],
        position_of: Callable[[int], int],
        last: int,
    ) -> Position:
        """Write the events of a batch that are new, at the positions given by their place among the new ones."""
        new = self.only_new(connection, batch)
        if new:
            apply_events(connection.executemany, ((position_of(index), item) for index, item in enumerate(new)))
            last = position_of(len(new) - 1)
            self.set_meta(connection, "last_position", str(last))
        return Position(last)

    def only_new(self, connection: sqlite3.Connection, batch: Sequence[Encoded]) -> list[Encoded]:
        """Leave out events that the log has, and repeats within the batch."""
        first = {item.event.event_id: item for item in reversed(batch)}
        ids = [item.event.event_id for item in batch] if len(first) == len(batch) else list(first)
        known: set[str] = set()
        for start in range(0, len(ids), _LOOKUP):
            some = ids[start : start + _LOOKUP]
            marks = ", ".join("?" * len(some))
            known.update(
                row[0]
                for row in connection.execute(f"SELECT event_id FROM penstock_event WHERE event_id IN ({marks})", some)  # noqa: S608
            )
        seen: set[str] = set(known)
        new = []
        for item in batch:
            if item.event.event_id not in seen:
                seen.add(item.event.event_id)
                new.append(item)
        return new

    @staticmethod
    def meta(connection: sqlite3.Connection, name: str) -> str | None:
        """A value that the store keeps about itself."""
        row = connection.execute("SELECT value FROM penstock_meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    @staticmethod
    def set_meta(connection: sqlite3.Connection, name: str, value: str) -> None:
        """Keep a value about the store."""
        connection.execute(SET_META, (name, value))

    def close(self) -> None:
        """Close every connection of this process."""
        with self._all_lock:
            found, self._all = self._all, []
        for connection in found:
            connection.close()
        self._local = threading.local()
        if self._memory is not None:
            self._memory.close()

    @contextmanager
    def _no_lock(self) -> Iterator[None]:
        yield

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            str(self.path) if self.path is not None else ":memory:",
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        if self.path is not None and connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        return connection

    def _prepare(self) -> int:
        """Make the tables of a new log, or check that this version can read the one that is there."""
        connection = self.connection()
        version = self._stored_version(connection)
        if version is None:
            with self.transaction():
                version = self._stored_version(connection)
                if version is None:
                    version = self._create(connection)
        if version > SCHEMA_VERSION:
            raise NewerLogError(
                f"the event log has schema version {version}; this penstock knows up to {SCHEMA_VERSION}",
                hint="upgrade penstock, or roll the log back with the version that migrated it",
            )
        return version

    def _create(self, connection: sqlite3.Connection) -> int:
        others = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
        if others:
            raise EventLogError(
                f"{self.path} is a SQLite database of something else", hint="give the event log a file of its own"
            )
        for statement in create_statements(SQLITE_WORDS):
            connection.execute(statement)
        self.set_meta(connection, "schema_version", str(SCHEMA_VERSION))
        return SCHEMA_VERSION

    def _stored_version(self, connection: sqlite3.Connection) -> int | None:
        try:
            stored = self.meta(connection, "schema_version")
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return None
            raise
        return None if stored is None else int(stored)
