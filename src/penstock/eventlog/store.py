"""A SQLite database with events and states: used by the SQLite log, the memory log and the local projection of a Delta
log. Safe for many threads and processes: WAL, one writer at a time, a connection per thread.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import EventLogError
from penstock.eventlog.contract import Position, Row, check_version
from penstock.eventlog.deadlines import remaining
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold import Select, Tables, append_batch
from penstock.eventlog.fold_statements import SELECT_META, SET_META
from penstock.eventlog.sqlite_files import Snapshot, connect, take_snapshot
from penstock.eventlog.tables import (
    SCHEMA_VERSION,
    SQLITE_WORDS,
    create_statements,
    downgrade_statements,
    upgrade_statements,
)
from penstock.model.clock import Clock, SystemClock
from penstock.model.event_logs import DEADLINE_SECONDS

_LATE_SECONDS = 0.5
"""How much of a deadline may be gone before a connection is told to wait for a shorter time."""
_CACHE_KILOBYTES = 8_000
_MAPPED_BYTES = 256 * 1024 * 1024
"""Pages are memory-mapped up to this size: the page cache alone is lost whenever another process commits."""


_process = os.getpid()
"""Kept, because asking for it with every query costs more than the rest of finding the connection."""


def _note_process() -> None:
    global _process  # noqa: PLW0603
    _process = os.getpid()


os.register_at_fork(after_in_child=_note_process)


class _Local(threading.local):
    """What a thread has open, in which process, and the snapshot that the connection is to."""

    connection: sqlite3.Connection
    process: int | None = None
    snapshot: Snapshot | None = None


class SqliteStore:
    """The tables of `tables` in one SQLite file, or in memory when no path is given."""

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Clock | None = None,
        synchronous: str = "NORMAL",
        busy_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self.path = path
        self._inode = 0
        self._is_closed = False
        self._clock = clock or SystemClock()
        self._synchronous = synchronous
        self._busy_seconds = busy_seconds
        self._local = _Local()
        self._all: list[sqlite3.Connection] = []
        self._all_lock = threading.Lock()
        self._memory_lock = threading.RLock()
        self._memory = self._connect() if path is None else None
        try:
            self.version = self._prepare()
            """The version when it was opened; another process may migrate it."""
        except BaseException:
            self.close()
            raise

    def select(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a query."""
        if self._memory is not None:
            with self._memory_lock:
                return self.connection().execute(sql, parameters).fetchall()
        try:
            return self.connection().execute(sql, parameters).fetchall()
        except sqlite3.OperationalError as error:
            return read_damaged_text(self.connection(), sql, parameters, error)

    @property
    def is_replaced(self) -> bool:
        """Whether there is another file at the path by now, or none."""
        try:
            return self.path is not None and self.path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

    def connection(self) -> sqlite3.Connection:
        """This thread's connection; a process made by fork gets its own, because SQLite forbids sharing."""
        if self._is_closed:
            raise EventLogError("the event log is closed", hint="open it again")
        if self._memory is not None:
            return self._memory
        local = self._local
        if local.snapshot is not None and self.path is not None and local.snapshot != take_snapshot(self.path):
            local.connection.close()
            local.process = None
        if local.process != _process:
            local.connection = self._connect()
            local.process = _process
            with self._all_lock:
                self._all.append(local.connection)
        return local.connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock; commits when the block ends, rolls back when it raises."""
        with self._memory_lock if self._memory is not None else self._no_lock():
            connection = self.connection()
            with self._waiting(connection):
                connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # SQLite ends it by itself when the disk is full
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def tables(self) -> Iterator[Tables]:
        """The tables in a transaction, as `fold` takes them."""
        with self.transaction() as connection:
            yield Tables(selecting(connection), connection.executemany)

    def append(self, batch: Sequence[Encoded]) -> Position:
        """Append the events that are new."""
        with self.tables() as tables:
            return append_batch(tables, batch, self._clock.now_ns())

    def migrate(self, before: int, after: int) -> str | None:
        """Change the tables to another version in one transaction; writers wait, a failure changes nothing."""
        with self.transaction() as connection:
            backup = self._back_up(before)
            statements = upgrade_statements(before, after) if after > before else downgrade_statements(before, after)
            for statement in statements:
                connection.execute(statement)
            self.set_meta(connection, "schema_version", str(after))
        return backup

    def _back_up(self, version: int) -> str | None:
        """Copy the file; the caller holds the write lock, so the copy is exactly the log before the migration."""
        if self.path is None:
            return None
        backup = self.path.with_name(f"{self.path.name}.v{version}-{self._clock.now_ns()}.bak")
        source, target = self._connect(), sqlite3.connect(backup)
        try:
            source.backup(target)
        finally:
            source.close()
            target.close()
        return str(backup)

    @contextmanager
    def snapshot(self) -> Iterator[Select]:
        """Queries that see the tables at one moment."""
        with self._memory_lock if self._memory is not None else self._no_lock():
            connection = self.connection()
            connection.execute("BEGIN")
            try:
                yield selecting(connection)
            finally:
                connection.execute("ROLLBACK")

    def compact(self) -> bool:
        """Write the file again without free pages and what was deleted; False while a reader keeps the old pages."""
        if self.path is None:
            return True
        connection = self.connection()
        connection.execute("VACUUM")
        return bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)

    def size(self) -> tuple[int, int]:
        """How many files the database has, and their bytes."""
        if self.path is None:
            return 0, 0
        found = [path for suffix in ("", "-wal") if (path := Path(f"{self.path}{suffix}")).exists()]
        return len(found), sum(path.stat().st_size for path in found)

    @staticmethod
    def meta(connection: sqlite3.Connection, name: str) -> str | None:
        """A stored property of the log."""
        row = connection.execute(SELECT_META, (name,)).fetchone()
        return None if row is None else str(row[0])

    @staticmethod
    def set_meta(connection: sqlite3.Connection, name: str, value: str) -> None:
        """Store a property of the log."""
        connection.execute(SET_META, (name, value))

    def close(self) -> None:
        """Close every connection of this process."""
        self._is_closed = True
        with self._all_lock:
            found, self._all = self._all, []
        for connection in found:
            connection.close()
        self._local = _Local()
        if self._memory is not None:
            self._memory.close()

    @contextmanager
    def _waiting(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Wait for other processes only as long as the operation may still take."""
        seconds = remaining(self._busy_seconds)
        if seconds > self._busy_seconds - _LATE_SECONDS:
            yield
            return
        connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
        try:
            yield
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1000)}")

    @contextmanager
    def _no_lock(self) -> Iterator[None]:
        yield

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        else:
            connection, self._local.snapshot = connect(self.path, self._busy_seconds)
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KILOBYTES}")
        connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
        return connection

    def _prepare(self) -> int:
        """Create the tables of a new log, or check that this version can read the existing one."""
        connection = self.connection()
        version = self._stored_version(connection)
        if version is None:
            with self.transaction():
                version = self._stored_version(connection)
                if version is None:
                    version = self._create(connection)
        check_version(version)
        self._inode = self.path.stat().st_ino if self.path is not None else 0
        return version

    def _create(self, connection: sqlite3.Connection) -> int:
        others = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
        if others:
            raise EventLogError(
                f"{self.path} is a SQLite database of another program", hint="use a separate file for the event log"
            )
        for statement in create_statements(SQLITE_WORDS, SCHEMA_VERSION):
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


def selecting(connection: sqlite3.Connection) -> Select:
    """Queries on a connection, as `fold` takes them."""

    def select(sql: str, parameters: Sequence[object]) -> list[Row]:
        try:
            return connection.execute(sql, parameters).fetchall()
        except sqlite3.OperationalError as error:
            return read_damaged_text(connection, sql, parameters, error)

    return select


def read_damaged_text(
    connection: sqlite3.Connection, sql: str, parameters: Sequence[object], error: sqlite3.OperationalError
) -> list[Row]:
    """Run a query again that met text which is not UTF-8, with that text replaced; any other error is raised."""
    if "UTF-8" not in str(error):
        raise error
    before = connection.text_factory
    connection.text_factory = lambda content: content.decode(errors="replace")
    try:
        return connection.execute(sql, parameters).fetchall()
    finally:
        connection.text_factory = before
