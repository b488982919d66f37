"""A log in PostgreSQL (psycopg 3), for many machines: `postgresql://user:password@host/database`.

Positions are assigned under a transaction-level advisory lock: its holder commits before the next writer gets a
position, so positions are in commit order and no event appears before a position that a reader has passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg

from penstock.errors import ConfigError, EventLogError, first_line
from penstock.eventlog.contract import AppendError, Entry, Position, Row, check_version
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold import Tables, append_batch
from penstock.eventlog.fold_statements import SELECT_META, SET_META
from penstock.eventlog.postgres_connections import Connection, Connections, is_transient
from penstock.eventlog.retry import DEADLINE_SECONDS, keep_trying
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

_LOCK = "SELECT pg_advisory_xact_lock(7350147, hashtext(current_schema()))"
# Not to_regclass: it can return a cached answer from before another process created the table.
_HAS_TABLES = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'penstock_meta'"


class PostgresEventLog(SqlEventLog):
    """A log in one schema of a PostgreSQL database."""

    def __init__(self, address: str, clock: Clock, deadline_seconds: float) -> None:
        super().__init__(_without_secrets(address))
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self._connections = Connections(address, deadline_seconds)
        try:
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
        try:
            with suppress(psycopg.OperationalError):
                return self._select(sql, parameters)
            return self._select(sql, parameters)
        except psycopg.OperationalError as error:
            raise EventLogError(f"{self.uri} cannot be read: {first_line(error)}") from error

    def close(self) -> None:
        """Close every connection."""
        self._connections.close()

    def _select(self, sql: str, parameters: Sequence[object]) -> list[Row]:
        with self._connections.lend() as connection:
            return connection.execute(_marks(sql), parameters).fetchall()

    def _write(self, batch: Sequence[Encoded]) -> Position:
        try:
            return keep_trying(lambda: self._try_write(batch), is_transient, self._deadline_seconds)
        except psycopg.Error as error:
            raise AppendError(
                f"{len(batch)} events could not be written to {self.uri}: {first_line(error)}",
                [item.event for item in batch],
                hint="check that the database can be reached and that this user may write to it",
            ) from error

    def _try_write(self, batch: Sequence[Encoded]) -> Position:
        # If the connection breaks during COMMIT, the events may or may not be there; event ids make a retry harmless.
        with self._transaction() as tables:
            return append_batch(tables, batch, self._clock.now_ns())

    @contextmanager
    def _transaction(self) -> Iterator[Tables]:
        with self._connections.lend() as connection, connection.transaction(), connection.cursor() as cursor:
            cursor.execute(_LOCK)
            yield Tables(
                lambda sql, parameters: cursor.execute(_marks(sql), parameters).fetchall(),
                lambda sql, rows: cursor.executemany(_marks(sql), rows),
            )

    def replace(self, entries: Sequence[Entry]) -> None:
        """Give events a new payload; the old one goes with the dead rows."""
        super().replace(entries)
        self._compact()

    def repair_storage(self) -> None:
        """Build the indexes again."""
        with self._connections.lend() as connection:
            for table in ALL_TABLES:
                connection.execute(_text(f"REINDEX TABLE {table}"))

    def _compact(self) -> None:
        with self._connections.lend() as connection:
            for table in ALL_TABLES:
                connection.execute(_text(f"VACUUM (ANALYZE) {table}"))

    def _size(self) -> tuple[int, int]:
        sizes = [self.select("SELECT pg_total_relation_size(?::regclass)", (table,))[0][0] for table in ALL_TABLES]
        return len(sizes), sum(sizes)

    def _migrate(self, before: int, after: int) -> str | None:
        backup = f"penstock_backup_v{before}_{self._clock.now_ns()}"
        statements = upgrade_statements(before, after) if after > before else downgrade_statements(before, after)
        with self._connections.lend() as connection, connection.transaction():
            connection.execute(_LOCK)
            connection.execute(_text(f"CREATE SCHEMA {backup}"))
            for table in ALL_TABLES:
                connection.execute(_text(f"CREATE TABLE {backup}.{table} AS TABLE {table}"))
            for statement in statements:
                connection.execute(_text(statement))
            connection.execute(_marks(SET_META), ("schema_version", str(after)))
        return f"schema {backup}"

    def _prepare(self) -> None:
        try:
            with self._connections.open() as connection:
                version = self._stored_version(connection)
                if version is None:
                    version = self._create(connection)
        except psycopg.Error as error:
            raise EventLogError(
                f"{self.uri} cannot be opened: {first_line(error)}",
                hint="check the host, the database and the credentials; the first user of a log must be allowed to create tables",
            ) from error
        check_version(version)

    def _create(self, connection: Connection) -> int:
        with connection.transaction():
            connection.execute(_LOCK)
            version = self._stored_version(connection)
            if version is None:
                for statement in create_statements(POSTGRES_WORDS, SCHEMA_VERSION):
                    connection.execute(_text(statement))
                connection.execute(_marks(SET_META), ("schema_version", str(SCHEMA_VERSION)))
                version = SCHEMA_VERSION
        return version

    @staticmethod
    def _stored_version(connection: Connection) -> int | None:
        if connection.execute(_HAS_TABLES).fetchone() is None:
            return None
        row = connection.execute(_marks(SELECT_META), ("schema_version",)).fetchone()
        return None if row is None else int(row[0])


def open_log(uri: str, clock: Clock) -> PostgresEventLog:
    """Open or create the log of a database; `deadline_seconds=N` in the URI limits how long an append is retried."""
    parts = urlsplit(uri)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    deadline = options.pop("deadline_seconds", str(DEADLINE_SECONDS))
    if not deadline.replace(".", "", 1).isdigit():
        raise ConfigError(f"deadline_seconds must be a number of seconds, not {deadline}")
    address = urlunsplit(parts._replace(scheme="postgresql", query=urlencode(options)))
    return PostgresEventLog(address, clock, float(deadline))


@lru_cache(maxsize=512)
def _marks(sql: str) -> Any:
    return sql.replace("?", "%s")


def _text(sql: str) -> Any:
    return cast(Any, sql)


def _without_secrets(address: str) -> str:
    parts = urlsplit(address)
    host = parts.hostname or ""
    return urlunsplit(("postgresql", f"{host}:{parts.port}" if parts.port else host, parts.path, "", ""))
