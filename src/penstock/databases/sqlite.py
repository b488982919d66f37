"""A table of a SQLite file, read by Python's own driver. One connection reads: there is no second one with the same view."""

from __future__ import annotations

import json
import os.path
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

from penstock.databases import sqlite_queries as queries
from penstock.databases.choosing import choose_columns
from penstock.databases.contract import Bound, Landed, Look, Origin, Seen, SourceColumn, Wanted, Window
from penstock.databases.sqlite_connection import connect, explained
from penstock.databases.sqlite_stamp import take_stamp
from penstock.databases.sqlite_types import choose_rule, to_array, to_stored
from penstock.errors import SourceError
from penstock.storage.files import Files

WAIT_SECONDS = 10.0
"""How long a locked file is waited for."""
_BATCH_BYTES = 16 * 1024 * 1024
_ROWS_AT_ONCE = 256


class SqliteTable:
    """A table or view of a SQLite file."""

    is_observable = True
    has_one_moment = False

    def __init__(self, path: str, table: str, wait_seconds: float = WAIT_SECONDS) -> None:
        self._path = path
        self._table = table
        self._wait_seconds = wait_seconds
        self.shown = f"table {table} of {path}"

    def look(self) -> Look:
        """Columns, keys and estimates; the stamp was taken before."""
        with self.open() as moment:
            return moment.look

    def check(self, wanted: Wanted, cursor: str | None = None) -> None:
        """Ask for no rows, and look at the ends of the cursor."""
        with self.open(cursor) as moment:
            moment.check(wanted)

    def find_news(
        self, window: Window, where: str | None, token: str | None = None, seen: Seen | None = None
    ) -> tuple[Look, Bound, bool]:
        """Columns, bound, and whether any row is in the window; the stamp tells better than `seen` whether rows changed."""
        del seen
        with self.open(window.cursor, token) as moment:
            bound = moment.bound or Bound(None, "")
            until = window.until if window.until is not None else bound.value
            found = moment.has_rows(Window(window.cursor, window.since, until, window.nulls), where)
            return moment.look, bound, found

    @contextmanager
    def open(self, cursor: str | None = None, token: str | None = None) -> Iterator[SqliteMoment]:
        """A view of the file in one read transaction."""
        with explained(self._path):
            connection = connect(self._path, self._wait_seconds)
        try:
            with explained(self._path):
                moment = SqliteMoment(connection, self._path, self._table, self.shown, cursor)
            yield moment
        finally:
            connection.close()

    def close(self) -> None:
        """Nothing stays open between two views."""


class SqliteMoment:
    """One read transaction."""

    def __init__(self, connection: sqlite3.Connection, path: str, table: str, shown: str, cursor: str | None) -> None:
        self._connection = connection
        self._path = path
        self._shown = shown
        self._lock = threading.RLock()
        self.stamp: str | None = take_stamp(path)
        connection.execute("BEGIN")
        self._table = queries.find_table(connection, table, shown)  # the first read: the view is taken here
        self.taken_at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        origin = Origin(json.dumps(["sqlite", self._table]), address=os.path.realpath(path))
        self.look = replace(queries.read_look(connection, self._table, self.stamp), origin=origin)
        self.bound: Bound | None = None
        if cursor is not None:
            self.bound = queries.decide_bound(connection, self._table, self.look, cursor, self._range(cursor))

    def count(self, wanted: Wanted) -> int:
        """How many rows there are."""
        with self._lock, explained(self._path), self._chosen(wanted) as end:
            return int(self._execute("SELECT count(*)", end).fetchone()[0])

    def check(self, wanted: Wanted) -> None:
        """SourceError when SQLite does not understand what is wanted."""
        names = ", ".join(f"t.{queries.quote(name)}" for name in wanted.columns)
        with self._lock, explained(self._path), self._chosen(wanted) as end:
            self._execute(f"SELECT {names}", queries.Condition(f"{end.text} LIMIT 0", end.values))

    def has_rows(self, window: Window, where: str | None) -> bool:
        """Whether there is a row in the window."""
        with self._lock, explained(self._path), self._chosen(Wanted((), where, window)) as end:
            return (
                self._execute("SELECT 1", queries.Condition(f"{end.text} LIMIT 1", end.values)).fetchone() is not None
            )

    def land(self, wanted: Wanted, files: Files, prefix: str) -> Landed:
        """Write the rows to Parquet."""
        from penstock.databases.landing import Landing, to_arrow_schema

        columns = choose_columns(self.look, wanted.columns, self._shown)
        with self._lock, explained(self._path), self._chosen(wanted) as end:
            with Landing(files, prefix, to_arrow_schema(columns)) as place:
                for rows in self._batches(columns, end):
                    place.add(self._to_table(columns, rows, end))
            greatest, nulls = self._cursor_facts(wanted, end)
        return Landed(tuple(place.written), place.rows, greatest, nulls)

    def mark(self, wanted: Wanted) -> str | None:
        """None: the stamp of the file tells whether rows changed."""
        del wanted
        return None

    def split(self, wanted: Wanted, column: str, parts: int) -> Sequence[tuple[str | None, str | None]]:
        """One range: there is one connection."""
        return [(None, None)]

    def sibling(self) -> AbstractContextManager[SqliteMoment]:
        """The moment itself; threads take turns."""
        return nullcontext(self)

    def _range(self, cursor: str) -> queries.CursorRange:
        return queries.read_range(self._connection, self._table, self.look, cursor, self._shown)

    @contextmanager
    def _chosen(self, wanted: Wanted) -> Iterator[queries.Condition]:
        range_ = self._range(wanted.window.cursor) if wanted.window else None
        if wanted.keys is not None:
            self._keep_keys(wanted.keys)
        yield queries.to_condition(wanted, range_)

    def _keep_keys(self, keys: Any) -> None:
        names = ", ".join(queries.quote(name) for name in keys.column_names)
        self._connection.execute("DROP TABLE IF EXISTS temp.penstock_keys")
        self._connection.execute(f"CREATE TABLE temp.penstock_keys ({names})")
        places = ", ".join("?" * len(keys.column_names))
        rules = {column.name.lower(): choose_rule(column.native) for column in self.look.columns}
        given = [
            (rules[name.lower()], column.to_pylist())
            for name, column in zip(keys.column_names, keys.columns, strict=True)
        ]
        stored = [[to_stored(value, rule) for value in values] for rule, values in given]
        rows = (row for each in zip(*stored, strict=True) for row in product(*each))
        self._connection.executemany(f"INSERT INTO temp.penstock_keys VALUES ({places})", rows)  # noqa: S608

    def _execute(self, select: str, end: queries.Condition) -> sqlite3.Cursor:
        return self._connection.execute(f"{select} FROM {queries.quote(self._table)} AS t{end.text}", end.values)

    def _batches(self, columns: tuple[SourceColumn, ...], end: queries.Condition) -> Iterator[list[tuple[Any, ...]]]:
        cursor = self._execute("SELECT " + ", ".join(f"t.{queries.quote(column.name)}" for column in columns), end)
        batch: list[tuple[Any, ...]] = []
        size = 0
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):  # few, because a value can have many megabytes
            batch += rows
            size += sum(len(value) if isinstance(value, str | bytes) else 8 for row in rows for value in row)
            if size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _to_table(self, columns: tuple[SourceColumn, ...], rows: list[tuple[Any, ...]], end: queries.Condition) -> Any:
        import pyarrow as pa

        arrays = []
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            array = to_array(values, choose_rule(column.native))
            if array is None:
                raise self._unfit(column, end)
            arrays.append(array)
        return pa.table(arrays, names=[column.name for column in columns])

    def _unfit(self, column: SourceColumn, end: queries.Condition) -> SourceError:
        """The error for a value that does not fit: it names the column and the first row, never the value."""
        name, rule = f"t.{queries.quote(column.name)}", choose_rule(column.native)
        row: Any = None
        try:
            cursor = self._execute(f"SELECT rowid, {name}", end)
            row = next((row for row in cursor if to_array((row[1],), rule) is None), None)
        except sqlite3.OperationalError:  # a view has no rowid
            pass
        place = f", first in the row with rowid {row[0]}" if row and row[0] is not None else ""
        return SourceError(
            f"column {column.name!r} of {self._shown} ({column.native}) has a value that is no {rule.type}{place}",
            hint="fix the value, load a view that has it as text (CAST(... AS TEXT), hex(...) of a blob), or use columns=",
        )

    def _cursor_facts(self, wanted: Wanted, end: queries.Condition) -> tuple[str | None, int]:
        if wanted.window is None:
            return None, 0
        column = f"t.{queries.quote(wanted.window.cursor)}"
        greatest, rows, given = self._execute(f"SELECT max({column}), count(*), count({column})", end).fetchone()
        return None if greatest is None else str(greatest), rows - given
