"""One snapshot of a PostgreSQL table: everything that is asked through it sees the same rows, also on other connections."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from psycopg import sql

from penstock.databases import postgres_queries as queries
from penstock.databases.choosing import choose_columns, find_column
from penstock.databases.contract import Bound, Landed, Look, SourceColumn, Wanted
from penstock.databases.postgres_catalog import TableFacts
from penstock.databases.postgres_connection import Patience, ReadingConnection, connect, explained
from penstock.databases.postgres_types import say_unfit
from penstock.errors import SourceError
from penstock.model.event_log_uris import EventLogUri
from penstock.storage.files import Files

if TYPE_CHECKING:
    import pyarrow as pa

_NOW = (
    "SELECT to_char(pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') AS taken_at"
)
_COMPARABLE = ("smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "decimal")
"""Types that Arrow compares as PostgreSQL does; texts have collations."""


class PostgresMoment:
    """A transaction that sees one snapshot, and others that share it."""

    stamp: str | None = None

    def __init__(
        self,
        uri: EventLogUri,
        shown: str,
        patience: Patience,
        connection: ReadingConnection,
        facts: TableFacts,
        bound: Bound | None,
        snapshot: str | None = None,
    ) -> None:
        self._uri = uri
        self._shown = shown
        self._patience = patience
        self._connection = connection
        self._facts = facts
        self._snapshot = snapshot
        self._lock = threading.RLock()
        self.bound = bound
        self.taken_at = ""

    @property
    def look(self) -> Look:
        """What the catalog says of the table."""
        return self._facts.look

    def __enter__(self) -> PostgresMoment:
        self._connection.silence_seconds = self._patience.silence
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if self._snapshot is not None:
            self._connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(self._snapshot)))
        self._connection.execute("SET LOCAL statement_timeout = 0")
        row = self._connection.execute(_NOW).fetchone() or {}  # the snapshot is taken here
        self.taken_at = row["taken_at"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._connection.closed:  # it was given up when the server did not answer
            self._connection.execute("ROLLBACK")
            self._connection.silence_seconds = self._patience.statement + 5.0

    def count(self, wanted: Wanted) -> int:
        """How many rows there are."""
        with self._lock, explained(self._uri, self._shown):
            counts = [
                self._connection.execute(queries.select(self._facts, sql.SQL("count(*) AS n"), condition)).fetchone()
                for condition in queries.to_conditions(self._facts, wanted)
            ]
            return sum(row["n"] for row in counts if row)

    def land(self, wanted: Wanted, files: Files, prefix: str) -> Landed:
        """Write the rows to Parquet."""
        from penstock.databases.landing import Landing, to_arrow_schema

        columns = choose_columns(self._facts.look, wanted.columns, self._shown)
        if wanted.window:
            find_column(self._facts.look, wanted.window.cursor, self._shown)
        facts = _CursorFacts(columns, wanted)
        with self._lock, explained(self._uri, self._shown):
            with Landing(files, prefix, to_arrow_schema(columns)) as place:

                def take(rows: pa.Table) -> None:
                    facts.add(rows)
                    place.add(rows)

                for condition in queries.to_conditions(self._facts, wanted):
                    self._copy(columns, condition, take)
            greatest, nulls = facts.found if facts.is_complete else self._ask_cursor(wanted)
        return Landed(tuple(place.written), place.rows, greatest, nulls)

    def mark(self, wanted: Wanted) -> str | None:
        """A hash of the rows of the window."""
        if wanted.window is None:
            return None
        with self._lock, explained(self._uri, self._shown):
            query = queries.mark(self._facts, wanted.columns, wanted.window, wanted.where)
            return queries.to_mark(self._connection.execute(query).fetchone() or {"rows": 0, "hash": None})

    def split(self, wanted: Wanted, column: str, parts: int) -> Sequence[tuple[str | None, str | None]]:
        """Ranges of a column with about as many rows each, from the server's statistics or the ends of an index."""
        from penstock.databases.postgres_splitting import split

        find_column(self._facts.look, column, self._shown)
        with self._lock, explained(self._uri, self._shown):
            return split(self._connection, self._facts, column, parts)

    @contextmanager
    def sibling(self) -> Iterator[PostgresMoment]:
        """Another connection with the same snapshot. The first one waits for a read of this moment that is under way."""
        with explained(self._uri, self._shown):
            with self._lock:
                if self._snapshot is None:
                    row = self._connection.execute("SELECT pg_catalog.pg_export_snapshot() AS id").fetchone() or {}
                    self._snapshot = row["id"]
            with (
                connect(self._uri, self._patience) as connection,
                PostgresMoment(
                    self._uri, self._shown, self._patience, connection, self._facts, self.bound, self._snapshot
                ) as moment,
            ):
                moment.taken_at = self.taken_at
                yield moment

    def _copy(self, columns: tuple[SourceColumn, ...], condition: sql.Composable, take: Any) -> None:
        from penstock.databases.postgres_copy import Parser, UnfitValueError, copy_blocks, parse_all

        statement = queries.copy(self._facts, columns, condition).as_bytes(self._connection)
        self._connection.execute("SAVEPOINT penstock")  # a COPY that is stopped must not end the snapshot
        blocks = copy_blocks(self._connection, statement)
        try:
            parse_all(blocks, Parser(columns, self._facts.types), take)
        except UnfitValueError:
            blocks.close()
            self._connection.execute("ROLLBACK TO SAVEPOINT penstock")
            raise self._unfit(columns, condition) from None
        finally:
            blocks.close()
        self._connection.execute("RELEASE SAVEPOINT penstock")

    def _unfit(self, columns: tuple[SourceColumn, ...], condition: sql.Composable) -> SourceError:
        query = queries.count_unfit(self._facts, columns, condition)
        counts = (self._connection.execute(query).fetchone() or {}) if query else {}
        found = [
            f"column {name!r} ({self._facts.types[name].text}) has {count} values that are {say_unfit(self._facts.types[name])}"
            for name, count in counts.items()
            if count
        ]
        what = "; ".join(found) or "a value is not what its type says, such as text that is not UTF-8"
        return SourceError(
            f"{self._shown} cannot be loaded exactly: {what}",
            hint="cast the column in a view and load that, leave it out with columns=, or leave the rows out with where=",
        )

    def _ask_cursor(self, wanted: Wanted) -> tuple[str | None, int]:
        if wanted.window is None:
            return None, 0
        column = sql.Identifier("t", wanted.window.cursor)
        what = sql.SQL("max({})::text AS greatest, count(*) - count({}) AS nulls").format(column, column)
        greatest: list[str] = []
        nulls = 0
        for condition in queries.to_conditions(self._facts, wanted):
            row = self._connection.execute(queries.select(self._facts, what, condition)).fetchone() or {}
            nulls += row["nulls"]
            greatest += [row["greatest"]] if row["greatest"] is not None else []
        return (max(greatest) if greatest else None), nulls


class _CursorFacts:
    """The greatest cursor among rows and how many have none, added up while they pass; where Arrow compares as the server."""

    def __init__(self, columns: tuple[SourceColumn, ...], wanted: Wanted) -> None:
        cursor = wanted.window.cursor if wanted.window else None
        types = {column.name: column.type or "" for column in columns}
        self._cursor = cursor if types.get(cursor or "", "").startswith(_COMPARABLE) else None
        self._greatest: Any = None
        self._nulls = 0
        self.is_complete = cursor is None or self._cursor is not None

    def add(self, rows: pa.Table) -> None:
        if self._cursor is None:
            return
        import pyarrow.compute as pc

        column = rows.column(self._cursor)
        greatest = pc.max(column).as_py()
        self._nulls += column.null_count
        if greatest is not None and (self._greatest is None or greatest > self._greatest):
            self._greatest = greatest

    @property
    def found(self) -> tuple[str | None, int]:
        return (None if self._greatest is None else to_canonical(self._greatest)), self._nulls


def to_canonical(value: Any) -> str:
    """A value as canonical text."""
    if isinstance(value, datetime):
        zoned = value.tzinfo is not None
        plain = value.astimezone(UTC).replace(tzinfo=None) if zoned else value
        return plain.isoformat(timespec="microseconds") + ("Z" if zoned else "")
    return value.isoformat() if isinstance(value, date) else str(value)
