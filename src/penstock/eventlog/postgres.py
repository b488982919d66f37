"""A log in PostgreSQL (psycopg 3), for many machines: `postgresql://user:password@host/database`.

Positions are assigned under a transaction-level advisory lock: its holder commits before the next writer gets a
position, so positions are in commit order and no event appears before a position that a reader has passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

import psycopg

from penstock.errors import EventLogError
from penstock.eventlog.contract import AppendError, Position, Row, StorageTroubleError, check_version
from penstock.eventlog.deadlines import DeadlinePassedError, has_passed, within
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold import Select, Tables, append_batch
from penstock.eventlog.fold_statements import SELECT_META, SET_META
from penstock.eventlog.postgres_connections import Connection, Connections, NoAnswerError, is_transient
from penstock.eventlog.retry import keep_trying
from penstock.eventlog.sql import SqlEventLog
from penstock.eventlog.tables import (
    ALL_TABLES,
    POSTGRES_WORDS,
    SCHEMA_VERSION,
    create_statements,
    downgrade_statements,
    upgrade_statements,
)
from penstock.model.clock import Clock
from penstock.model.event_log_uris import EventLogUri

_LOCK = "SELECT pg_advisory_xact_lock(7350147, hashtext(current_schema()))"
# Not to_regclass: it can return a cached answer from before another process created the table.
_HAS_TABLES = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'penstock_meta'"


class PostgresEventLog(SqlEventLog):
    """A log in one schema of a PostgreSQL database."""

    def __init__(self, uri: EventLogUri, clock: Clock) -> None:
        super().__init__(uri.shown, uri.deadline_seconds)
        self._source = uri
        self._clock = clock
        self._connections = Connections(uri)
        try:
            with within(self.deadline_seconds):
                self._prepare()
        except BaseException:
            self.close()
            raise

    def glob_condition(self, column: str, pattern: str) -> tuple[str, str]:
        """The condition that a column matches a pattern of `*` and `?`, and its parameter."""
        escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"{column} LIKE ?", escaped.replace("*", "%").replace("?", "_")

    def select(self, sql: str, parameters: Sequence[object] = (), *, strict: bool = False) -> list[Row]:  # noqa: ARG002
        """Run a query of `projections`; always strict, and retried once when the connection was lost."""
        with self._explaining("cannot be read"), within(self.deadline_seconds):
            try:
                return self._select(sql, parameters)
            except psycopg.OperationalError:
                if has_passed():
                    raise
            return self._select(sql, parameters)

    def close(self) -> None:
        """Close every connection."""
        self._connections.close()

    def _select(self, sql: str, parameters: Sequence[object]) -> list[Row]:
        with self._connections.lend() as connection:
            return connection.execute(_marks(sql), parameters).fetchall()

    def _write(self, batch: Sequence[Encoded]) -> Position:
        try:
            return keep_trying(lambda: self._try_write(batch), is_transient, self.deadline_seconds)
        except psycopg.Error as error:
            raise AppendError(
                f"{len(batch)} events could not be written to {self.uri}: {self._reason(error)}",
                [item.event for item in batch],
                hint=_hint(error, "check that the database can be reached and that this user may write to it"),
            ) from None

    def _try_write(self, batch: Sequence[Encoded]) -> Position:
        # If the connection breaks during COMMIT, the events may or may not be there; event ids make a retry harmless.
        with self._tables() as tables:
            return append_batch(tables, batch, self._clock.now_ns())

    @contextmanager
    def _transaction(self) -> Iterator[Tables]:
        with self._explaining("cannot be changed"), self._tables() as tables:
            yield tables

    @contextmanager
    def _tables(self) -> Iterator[Tables]:
        with self._connections.transaction(_LOCK) as cursor:
            yield Tables(
                lambda sql, parameters: cursor.execute(_marks(sql), parameters).fetchall(),
                lambda sql, rows: cursor.executemany(_marks(sql), rows),
            )

    def scrub(self) -> None:
        """Write the tables again: pages keep bytes of what was changed."""
        self._compact()

    @contextmanager
    def _snapshot(self) -> Iterator[Select]:
        with self._explaining("cannot be read"), self._connections.lend() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield lambda sql, parameters: connection.execute(_marks(sql), parameters).fetchall()

    def repair_storage(self) -> None:
        """Build the indexes again."""
        with self._explaining("cannot be changed"), self._connections.lend() as connection:
            for table in ALL_TABLES:
                connection.execute(_text(f"REINDEX TABLE {table}"))

    def _compact(self) -> None:
        with self._explaining("cannot be changed"), self._connections.lend() as connection:
            connection.execute(_text(f"SET lock_timeout = {int(self.deadline_seconds * 1000)}"))
            try:
                for table in ALL_TABLES:
                    connection.execute(_text(f"VACUUM (FULL, ANALYZE) {table}"))
            finally:
                connection.execute("RESET lock_timeout")

    def _size(self) -> tuple[int, int]:
        sizes = [self.select("SELECT pg_total_relation_size(?::regclass)", (table,))[0][0] for table in ALL_TABLES]
        return len(sizes), sum(sizes)

    def _migrate(self, before: int, after: int) -> str | None:
        backup = f"penstock_backup_v{before}_{self._clock.now_ns()}"
        statements = upgrade_statements(before, after) if after > before else downgrade_statements(before, after)
        with self._explaining("cannot be changed"), self._connections.transaction(_LOCK) as cursor:
            cursor.execute(_text(f"CREATE SCHEMA {backup}"))
            for table in ALL_TABLES:
                cursor.execute(_text(f"CREATE TABLE {backup}.{table} AS TABLE {table}"))
            for statement in statements:
                cursor.execute(_text(statement))
            cursor.execute(_marks(SET_META), ("schema_version", str(after)))
        return f"schema {backup}"

    def _prepare(self) -> None:
        with (
            self._explaining(
                "cannot be opened",
                "check the host, the database and the credentials; the first user of a log must be allowed to create tables",
            ),
            self._connections.open() as connection,
        ):
            version = self._stored_version(connection)
            if version is None:
                version = self._create(connection)
        check_version(version)

    @contextmanager
    def _explaining(
        self, what: str, hint: str = "check that the database can be reached and is intact"
    ) -> Iterator[None]:
        """Raise what the database reports as an error of the log. Not as its cause: it can quote what is secret."""
        try:
            yield
        except (psycopg.Error, DeadlinePassedError) as error:
            message = f"{self.uri} {what}: {self._reason(error)}"
            kind = StorageTroubleError if _is_late(error) or is_transient(error) else EventLogError
            raise kind(message, hint=_hint(error, hint)) from None

    def _reason(self, error: BaseException) -> str:
        if not _is_late(error):
            return self._source.describe(error)
        waiting = " (another session holds a lock)" if isinstance(error, psycopg.errors.LockNotAvailable) else ""
        return f"no answer within {self.deadline_seconds:g} s{waiting}"

    def _create(self, connection: Connection) -> int:
        with self._connections.transaction(_LOCK, connection) as cursor:
            version = self._stored_version(connection)
            if version is None:
                for statement in create_statements(POSTGRES_WORDS, SCHEMA_VERSION):
                    cursor.execute(_text(statement))
                cursor.execute(_marks(SET_META), ("schema_version", str(SCHEMA_VERSION)))
                version = SCHEMA_VERSION
        return version

    @staticmethod
    def _stored_version(connection: Connection) -> int | None:
        if connection.execute(_HAS_TABLES).fetchone() is None:
            return None
        row = connection.execute(_marks(SELECT_META), ("schema_version",)).fetchone()
        return None if row is None else int(row[0])


def open_log(uri: EventLogUri, clock: Clock) -> PostgresEventLog:
    """Open or create the log of a database."""
    return PostgresEventLog(uri, clock)


@lru_cache(maxsize=512)
def _marks(sql: str) -> Any:
    return sql.replace("?", "%s")


def _text(sql: str) -> Any:
    return cast(Any, sql)


def _is_late(error: BaseException) -> bool:
    """Whether something took too long: the server, the network, or another session with a lock."""
    late = psycopg.errors
    kinds = (DeadlinePassedError, NoAnswerError, late.ConnectionTimeout, late.LockNotAvailable, late.QueryCanceled)
    return isinstance(error, kinds)


def _hint(error: BaseException, otherwise: str) -> str:
    if not _is_late(error):
        return otherwise
    return (
        "check that the server is running and that no session keeps a lock; `deadline_seconds` in the URI is the limit"
    )
