"""The queries that a load makes on a table of SQLite. Identifiers are quoted, values are bound."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from typing import Any

from penstock.databases.choosing import find_column
from penstock.databases.contract import Bound, Look, SourceColumn, Wanted, Window
from penstock.databases.sqlite_types import to_column
from penstock.errors import SourceError
from penstock.model.nearest import nearest_hint

_NUMBERS = ("integer", "real")
_QUOTED = re.compile(r'"(?:[^"]|"")*"|\[[^\]]*\]|`(?:[^`]|``)*`')


@dataclass(frozen=True, slots=True)
class Condition:
    """The end of a statement and its parameters."""

    text: str = ""
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class CursorRange:
    """The least and greatest value of a cursor, and how they are stored: `integer`, `real` or `text`; None without rows."""

    storage: str | None
    greatest: Any = None

    def bind(self, value: str) -> Any:
        """A canonical text as SQLite has to compare it."""
        if self.storage == "text" or self.storage is None:
            return value
        try:
            return int(value)
        except ValueError:
            return float(value)


def quote(name: str) -> str:
    """An identifier as SQLite reads it."""
    from sqlglot import exp

    return exp.to_identifier(name, quoted=True).sql(dialect="sqlite")


def find_table(connection: sqlite3.Connection, name: str, shown: str) -> str:
    """The table's own spelling of its name; the user may have quoted it."""
    known = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
    bare = name[1:-1].replace(name[-1] * 2, name[-1]) if _QUOTED.fullmatch(name) else name
    for wanted in (name, bare, bare.removeprefix("main.")):
        for match in (wanted.__eq__, lambda each, wanted=wanted: each.lower() == wanted.lower()):
            for each in known:
                if match(each):
                    return str(each)
    raise SourceError(
        f"{shown} does not exist",
        hint=f"{nearest_hint(bare, known)}the file has {', '.join(known[:20]) or 'no tables'}",
    )


def read_look(connection: sqlite3.Connection, table: str, stamp: str | None) -> Look:
    """Columns, primary key and an estimate of the rows."""
    keys: dict[int, str] = {}
    columns: list[SourceColumn] = []
    for _, name, declared, is_required, _, key, hidden in connection.execute(f"PRAGMA table_xinfo({quote(table)})"):
        if hidden == 1:  # of a virtual table; it is not part of `SELECT *`
            continue
        if key:
            keys[key] = name
        columns.append(to_column(name, declared, nullable=not is_required))
    return Look(
        tuple(columns), tuple(keys[number] for number in sorted(keys)), _estimate(connection, table), None, stamp
    )


def _estimate(connection: sqlite3.Connection, table: str) -> int | None:
    kind = connection.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if kind == ("view",):  # its rowids are NULL, in some versions of SQLite
        return None
    try:  # ends of the tree; a count would read the table
        row = connection.execute(
            f"SELECT max(rowid), (SELECT min(rowid) FROM {quote(table)}) FROM {quote(table)}"  # noqa: S608
        ).fetchone()
    except sqlite3.OperationalError:  # a table WITHOUT ROWID
        return None
    if row[0] is None:
        return 0
    return int(row[0] - row[1] + 1) if isinstance(row[0], int) and isinstance(row[1], int) else None


def read_range(connection: sqlite3.Connection, table: str, look: Look, cursor: str, shown: str) -> CursorRange:
    """How a cursor is stored; refused when it holds numbers and texts, because a window would leave one of them out.

    SQLite sorts numbers before texts and texts before blobs, so the ends tell of all. An index makes it two lookups.
    """
    find_column(look, cursor, shown)
    column, source = f"t.{quote(cursor)}", f"FROM {quote(table)} AS t"
    ends = f"SELECT (SELECT min({column}) {source}) AS a, (SELECT max({column}) {source}) AS b"
    least, most, greatest = connection.execute(f"SELECT typeof(a), typeof(b), b FROM ({ends})").fetchone()  # noqa: S608
    if most == "null":
        return CursorRange(None)
    if most == "blob" or (least in _NUMBERS) != (most in _NUMBERS):
        raise SourceError(
            f"the cursor {cursor!r} of {shown} must hold only numbers or only texts; it holds {least} and {most} values",
            hint="fix the values, or cast it in a view and load that",
        )
    return CursorRange("integer" if {least, most} == {"integer"} else "real" if most in _NUMBERS else "text", greatest)


def decide_bound(connection: sqlite3.Connection, table: str, look: Look, cursor: str, range_: CursorRange) -> Bound:
    """How far a load may read. There is one writer at a time, so numbers that only grow are safe below the greatest one."""
    if range_.storage is None:
        return Bound(None, "the table has no cursor values yet")
    if range_.storage != "integer":
        return Bound(None, "SQLite does not know when a value was set, so rows may be committed late: lookback decides")
    if look.primary_key == (cursor,) and _has_autoincrement(connection, table):
        return Bound(str(range_.greatest + 1), "AUTOINCREMENT never gives a number twice")
    return Bound(str(range_.greatest), "rows with the greatest number wait until there is a greater one")


def _has_autoincrement(connection: sqlite3.Connection, table: str) -> bool:
    row = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    return bool(row and re.search(r"\bAUTOINCREMENT\b", row[0] or "", re.IGNORECASE))


def to_condition(wanted: Wanted, range_: CursorRange | None) -> Condition:
    """Which rows are wanted, as a WHERE clause."""
    parts: list[str] = []
    values: list[Any] = []
    if wanted.where:
        parts.append(f"(\n{wanted.where}\n)")  # a line of its own: it may end with a comment
    if wanted.window:
        text, given = _window(wanted.window, range_ or CursorRange(None))
        parts.append(text)
        values += given
    if wanted.chunk and wanted.chunk_column:
        tests, given = _chunk(quote(wanted.chunk_column), *wanted.chunk)
        parts += tests
        values += given
    if wanted.keys is not None:
        names = wanted.keys.column_names
        parts.append(f"({', '.join(f't.{quote(name)}' for name in names)}) IN (SELECT * FROM temp.penstock_keys)")  # noqa: S608
    return Condition(" WHERE " + " AND ".join(parts) if parts else "", tuple(values))


def _window(window: Window, range_: CursorRange) -> tuple[str, list[Any]]:
    column = f"t.{quote(window.cursor)}"
    limits = [(sign, value) for sign, value in ((">=", window.since), ("<", window.until)) if value is not None]
    inside = " AND ".join(f"{column} {sign} ?" for sign, _ in limits) or f"{column} IS NOT NULL"
    nulls = f" OR {column} IS NULL" if window.nulls else ""
    return f"({inside}{nulls})", [range_.bind(value) for _, value in limits]


def _chunk(column: str, since: str | None, until: str | None) -> tuple[list[str], list[Any]]:
    parts, values = [], []
    if since is not None:
        parts.append(f"t.{column} >= ?")
        values.append(_number_or_text(since))
    if until is not None:
        parts.append(f"t.{column} < ?" if since is not None else f"(t.{column} < ? OR t.{column} IS NULL)")
        values.append(_number_or_text(until))
    return parts, values


def _number_or_text(value: str) -> Any:
    try:
        return int(value)
    except ValueError:
        return value
