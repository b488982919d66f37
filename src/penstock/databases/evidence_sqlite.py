"""What the advisor wants to know of a SQLite table, by bounded reads: the schema, statistics, the ends of the rowids, samples."""

from __future__ import annotations

import re
import sqlite3
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from penstock.databases.declared import check_declared
from penstock.errors import SourceError
from penstock.model.evidence import CursorEvidence, CursorType, Declared, Evidence
from penstock.model.nearest import nearest_hint

QUERY_SECONDS = 5.0
"""How long one question may take; what takes longer stays unknown, and the advice says so."""
COUNTED_ROWS = 100_000
"""A table whose rowids span fewer is counted."""
SAMPLED_ROWS = 1000
"""Rows that are read at each end of the table; and rowids in each of the windows that estimate how densely they are used."""
WINDOWS = 20
MOST_CURSORS = 12
_ANY_ZONE = 14 * 3600
_NOW = re.compile(r"CURRENT_(TIMESTAMP|DATE)|'now'|unixepoch\s*\(", re.IGNORECASE)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?\Z")
_SAYS_TIME = re.compile(r"updat|modif|chang|creat|insert|touch|time|stamp|date|_(at|on|ts)\Z|\Ats\Z", re.IGNORECASE)
_UNIX_TIMES = ((946_684_800, 4_102_444_800), (946_684_800_000, 4_102_444_800_000))
"""2000 to 2100, in seconds and in milliseconds."""
_LATE = "SQLite does not show when open transactions began"


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    type: str
    is_not_null: bool
    default: str | None
    key_place: int


def quoted(name: str) -> str:
    """An identifier as SQLite takes it, whatever is in it."""
    return exp.to_identifier(name, quoted=True).sql("sqlite")


def collect_sqlite(connection: sqlite3.Connection, table: str, declared: Declared) -> Evidence:
    """Look at one table or view of an open file."""
    return _Collector(connection, table, declared).collect()


class _Collector:
    """The questions about one table."""

    def __init__(self, connection: sqlite3.Connection, table: str, declared: Declared) -> None:
        self._connection = connection
        self._table = table
        self._declared = declared
        self._notes: list[str] = []

    def collect(self) -> Evidence:
        """Everything, the cheapest first."""
        kind, text = self._find()
        columns = self._columns()
        check_declared(self._table, [column.name for column in columns], self._declared)
        has_rowid = kind == "table" and not re.search(r"\bWITHOUT\s+ROWID\b", text, re.IGNORECASE)
        rows, is_exact = self._count(has_rowid)
        indexes = self._indexes()
        return Evidence(
            self._table,
            rows,
            is_exact,
            None,
            self._primary_key(columns, has_rowid),
            tuple(self._unique_keys(indexes, columns)),
            tuple(self._cursors(columns, indexes, rows, has_rowid)),
            None,
            None,
            _LATE,
            self._declared,
            tuple(self._notes),
        )

    def _ask(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(question, values).fetchall()

    def _measure(self, question: str, what: str, *values: object, column: str = "") -> list[tuple[Any, ...]]:
        """The answer to a question about `{table}` and `{column}`; nothing when it takes too long."""
        question = question.format(table=quoted(self._table), column=quoted(column))
        end = time.monotonic() + QUERY_SECONDS
        self._connection.set_progress_handler(lambda: time.monotonic() > end, 10_000)
        try:
            return self._ask(question, *values)
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            note = f"Not measured: {what} took longer than {QUERY_SECONDS:g} s."
            if note not in self._notes:
                self._notes.append(note)
            return []
        finally:
            self._connection.set_progress_handler(None, 0)

    def _find(self) -> tuple[str, str]:
        known = self._ask("SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view')")
        for name, kind, text in known:
            if name.lower() == self._table.lower():
                return kind, text or ""
        names = [name for name, _, _ in known]
        hint = f"{nearest_hint(self._table, names)}the file has {', '.join(names[:20]) or 'no tables'}"
        raise SourceError(f"there is no table {self._table}", hint=hint)

    def _columns(self) -> tuple[_Column, ...]:
        rows = self._ask('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?)', self._table)
        return tuple(
            _Column(name, type_ or "", bool(required), default, key) for name, type_, required, default, key in rows
        )

    def _count(self, has_rowid: bool) -> tuple[int | None, bool]:
        """The number of rows, and whether they were counted."""
        if not has_rowid:
            return self._count_some()
        ends = "SELECT (SELECT min(rowid) FROM {table}), (SELECT max(rowid) FROM {table})"
        found = self._measure(ends, "the number of rows")
        if not found:
            return None, False
        low, high = found[0]
        if low is None:
            return 0, True
        if high - low < COUNTED_ROWS:
            counted = self._measure("SELECT count(*) FROM {table}", "the number of rows")
            return (counted[0][0], True) if counted else (None, False)
        if (stated := self._stated_rows()) is not None:
            return stated, False
        return self._estimate(low, high), False

    def _count_some(self) -> tuple[int | None, bool]:
        """Without rowids there is nothing to estimate from: count as far as the limit."""
        if (stated := self._stated_rows()) is not None:
            return stated, False
        question = "SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT ?)"
        counted = self._measure(question, "the number of rows", COUNTED_ROWS + 1)
        if counted and counted[0][0] <= COUNTED_ROWS:
            return counted[0][0], True
        if counted:
            self._notes.append(f"Counted no further than {COUNTED_ROWS:,} rows: ANALYZE lets SQLite state the number.")
        return (counted[0][0] if counted else None), False

    def _stated_rows(self) -> int | None:
        """What ANALYZE has written down: the first number of any line about the table."""
        numbers = [int(stat.split()[0]) for _, stat in self._statistics() if stat and stat.split()[0].isdigit()]
        return max(numbers, default=None)

    def _statistics(self) -> list[tuple[Any, ...]]:
        if not self._ask("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'"):
            return []
        return self._ask("SELECT idx, stat FROM sqlite_stat1 WHERE tbl = ? COLLATE NOCASE", self._table)

    def _estimate(self, low: int, high: int) -> int:
        """How densely rowids are used in some windows, times their span."""
        span, found = high - low + 1, 0
        step = max(1, (span - SAMPLED_ROWS) // (WINDOWS - 1))
        question = "SELECT count(*) FROM {table} WHERE rowid >= ? AND rowid < ?"
        for place in range(WINDOWS):
            start = low + place * step
            found += sum(
                count for (count,) in self._measure(question, "a sample of the rows", start, start + SAMPLED_ROWS)
            )
        return round(span * found / (WINDOWS * SAMPLED_ROWS))

    def _indexes(self) -> dict[str, tuple[bool, tuple[str | None, ...]]]:
        """Whether each whole index is unique, and its columns."""
        listed = self._ask('SELECT name, "unique" FROM pragma_index_list(?) WHERE partial = 0', self._table)
        return {
            name: (
                bool(unique),
                tuple(column for (column,) in self._ask("SELECT name FROM pragma_index_info(?)", name)),
            )
            for name, unique in listed
        }

    def _primary_key(self, columns: Sequence[_Column], has_rowid: bool) -> tuple[str, ...]:
        key = sorted((column for column in columns if column.key_place), key=lambda column: column.key_place)
        is_rowid = len(key) == 1 and key[0].type.upper() == "INTEGER"
        if has_rowid and not is_rowid and not all(column.is_not_null for column in key):
            self._notes.append("SQLite allows NULLs in its primary key, so it is not used: declare it with `keys=`.")
            return ()
        return tuple(column.name for column in key)

    def _unique_keys(
        self, indexes: dict[str, tuple[bool, tuple[str | None, ...]]], columns: Sequence[_Column]
    ) -> Iterable[tuple[str, ...]]:
        required = {column.name for column in columns if column.is_not_null}
        key = {column.name for column in columns if column.key_place}
        for is_unique, names in indexes.values():
            if is_unique and set(names) <= required and set(names) != key:
                yield tuple(name for name in names if name is not None)

    def _cursors(
        self,
        columns: Sequence[_Column],
        indexes: dict[str, tuple[bool, tuple[str | None, ...]]],
        rows: int | None,
        has_rowid: bool,
    ) -> Iterable[CursorEvidence]:
        first = {names[0]: name for name, (_, names) in indexes.items() if names}
        chosen = [column for column in columns if _may_be_time(column)][:MOST_CURSORS]
        chosen += [each for each in columns if each.name == self._declared.cursor and each not in chosen]
        triggers = self._ask("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", self._table)
        distinct = {idx: _distinct(stat, rows) for idx, stat in self._statistics()}
        for column in chosen:
            sample = self._sample(column.name, has_rowid)
            type_ = _to_type(column, sample)
            is_indexed = column.name in first
            if type_ in {CursorType.NUMBER, CursorType.TEXT} and column.name != self._declared.cursor:
                continue
            yield CursorEvidence(
                column.name,
                type_,
                is_indexed,
                0.0 if column.is_not_null else _null_share(sample),
                _top_share(sample),
                distinct.get(first.get(column.name)),
                _correlation(sample),
                bool(_NOW.search(column.default or "")),
                next((name for name, text in triggers if _sets(text or "", column.name)), None),
                self._ahead(column.name, type_) if is_indexed else None,
            )

    def _sample(self, column: str, has_rowid: bool) -> list[Any]:
        """Values of the first and the last rows."""
        what = f"a sample of {column}"
        if not has_rowid:
            question = "SELECT {column} FROM {table} LIMIT ?"
            return [value for (value,) in self._measure(question, what, 2 * SAMPLED_ROWS, column=column)]
        first = self._measure(
            "SELECT rowid, {column} FROM {table} ORDER BY rowid LIMIT ?", what, SAMPLED_ROWS, column=column
        )
        last = self._measure(
            "SELECT rowid, {column} FROM {table} ORDER BY rowid DESC LIMIT ?", what, SAMPLED_ROWS, column=column
        )
        return [value for _, value in sorted(dict(first + last).items(), key=lambda row: row[0])]

    def _ahead(self, column: str, type_: CursorType) -> float | None:
        """How far the greatest value lies in the future; the index has it at its end."""
        if type_ not in {CursorType.LOCAL, CursorType.ISO_TEXT}:
            return None
        question = "SELECT (julianday((SELECT max({column}) FROM {table})) - julianday('now')) * 86400"
        found = self._measure(question, f"the greatest value of {column}", column=column)
        return max(0.0, found[0][0] - _ANY_ZONE) if found and found[0][0] is not None else None


def _may_be_time(column: _Column) -> bool:
    return bool(re.search("DATE|TIME", column.type, re.IGNORECASE) or _SAYS_TIME.search(column.name))


def _to_type(column: _Column, sample: Sequence[Any]) -> CursorType:
    """What a column holds: SQLite's declared types promise nothing."""
    values = [value for value in sample if value is not None]
    if values and all(isinstance(value, str) and _ISO.match(value) for value in values):
        return CursorType.ISO_TEXT
    if values and all(isinstance(value, int) and _is_unix(value) for value in values) and _may_be_time(column):
        return CursorType.UNIX
    if re.fullmatch("DATE", column.type, re.IGNORECASE):
        return CursorType.DATE
    if re.search("DATE|TIME", column.type, re.IGNORECASE) and not values:
        return CursorType.LOCAL
    if values and all(isinstance(value, int | float) for value in values):
        return CursorType.NUMBER
    return CursorType.TEXT


def _is_unix(value: int) -> bool:
    return any(low <= value < high for low, high in _UNIX_TIMES)


def _null_share(sample: Sequence[Any]) -> float | None:
    return sum(value is None for value in sample) / len(sample) if sample else None


def _top_share(sample: Sequence[Any]) -> float | None:
    common = Counter(value for value in sample if value is not None).most_common(1)
    return common[0][1] / len(sample) if common else None


def _correlation(sample: Sequence[Any]) -> float | None:
    """How well the order of the values follows the order of the rows."""
    values = [value for value in sample if value is not None]
    kinds = {type(value) for value in values}
    if len(set(values)) < 2 or len(kinds) > 1:
        return None
    ranks = {value: rank for rank, value in enumerate(sorted(set(values)))}
    return statistics.correlation(range(len(values)), [ranks[value] for value in values])


def _distinct(stat: str | None, rows: int | None) -> int | None:
    """The second number of a line of ANALYZE: how many rows have the same first column, on average."""
    numbers = (stat or "").split()
    if rows is None or len(numbers) < 2 or not numbers[1].isdigit() or int(numbers[1]) == 0:
        return None
    return max(1, rows // int(numbers[1]))


def _sets(text: str, column: str) -> bool:
    """Whether a trigger runs on every update and assigns the column."""
    head, _, body = text.partition("BEGIN") if "BEGIN" in text else text.partition("begin")
    name = rf'["`\[]?{re.escape(column)}["`\]]?'
    is_on_update = re.search(r"\bUPDATE\s+ON\b", head, re.IGNORECASE) and not re.search(
        r"\bWHEN\b", head, re.IGNORECASE
    )
    return bool(is_on_update and re.search(rf"\bSET\b[^;]*?{name}\s*=", body, re.IGNORECASE | re.DOTALL))
