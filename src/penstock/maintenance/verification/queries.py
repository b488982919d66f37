"""The questions of a verification, as SQL of the JVM-free Delta reader. Pure; names and values are quoted by a library.

Both sides get the same column names, c0, c1, ...: those of the key first. Without a key, rows are compared as a whole, and
equal rows are counted.
"""
# ruff: noqa: S608 - names and values are quoted by sqlglot; everything else is written here

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from penstock.databases.contract import SourceColumn
from penstock.model.changes import END_AT
from penstock.model.loads import DELETED_AT, NullCursor
from penstock.model.verification import RowStatus

OWN = (DELETED_AT, END_AT)
"""Columns of Penstock's own that mark a row as gone."""
_TIMES = {"timestamp": 'Timestamp(Microsecond, Some("UTC"))', "timestamp_ntz": "Timestamp(Microsecond, None)"}
_WHOLE = {"tinyint", "smallint", "int", "bigint"}
_ISO = re.compile(r"\d{4}-\d\d-\d\d")
_MOST_DAYS, _MOST_MONTHS = 60, 5 * 366
_RANGES = 10


@dataclass(frozen=True, slots=True)
class Pair:
    """A column of the source, and its name in the table."""

    source: SourceColumn
    target: str
    is_key: bool = False
    is_cursor: bool = False


@dataclass(frozen=True, slots=True)
class Pairs:
    """What is compared."""

    columns: tuple[Pair, ...]
    own: dict[str, str]
    """Penstock's own columns that the table has, as it spells them."""
    watermark: str | None = None
    null_cursor: NullCursor = NullCursor.FAIL

    @property
    def keys(self) -> tuple[int, ...]:
        """The places of the columns that rows are matched by: all of them where there is no key."""
        found = tuple(place for place, pair in enumerate(self.columns) if pair.is_key)
        return found or tuple(range(len(self.columns)))

    @property
    def has_key(self) -> bool:
        return any(pair.is_key for pair in self.columns)

    @property
    def cursor(self) -> int | None:
        """The place of the cursor."""
        return next((place for place, pair in enumerate(self.columns) if pair.is_cursor), None)

    @property
    def window_column(self) -> int | None:
        """The place of the column that rows are grouped by: the cursor, or a key that is a whole number."""
        if self.cursor is not None:
            return self.cursor
        is_number = len(self.keys) == 1 and self.columns[self.keys[0]].source.type in _WHOLE
        return self.keys[0] if is_number else None


@dataclass(frozen=True, slots=True)
class Windows:
    """How a row's window is named: an expression over its column, which stands as `{}`."""

    column: int | None = None
    name: str = "'all rows'"

    def of(self, side: str) -> str:
        """The window of a row of one side."""
        return self.name if self.column is None else self.name.format(f"{side}.c{self.column}")

    def of_either(self) -> str:
        """The window of a row that may be on one side only."""
        return self.name if self.column is None else self.name.format(f"coalesce(s.c{self.column}, t.c{self.column})")


def find_span(pairs: Pairs) -> str:
    """The least and the greatest value of the column that rows are grouped by."""
    column = f"s.c{pairs.window_column}"
    return f"WITH {_side(pairs, 's')} SELECT min({column}) AS least, max({column}) AS greatest FROM s"


def choose_windows(pairs: Pairs, least: Any, greatest: Any) -> Windows:
    """Days, months or years; ten ranges of numbers; or one window."""
    place = pairs.window_column
    if place is None or least is None:
        return Windows()
    if isinstance(least, date) and isinstance(greatest, date):  # times are dates too
        return Windows(place, _by_time("{}", _days(least, greatest)))
    if isinstance(least, str) and _ISO.match(least) and _ISO.match(str(greatest)):
        length = _text_length(_days_between(least, str(greatest)))
        return Windows(place, f"coalesce(substr({{}}, 1, {length}), 'no cursor')")
    if isinstance(least, int) and isinstance(greatest, int):
        size = max(1, -(-(greatest - least + 1) // _RANGES))
        start = f"({least} + (({{}} - ({least})) / {size}) * {size})"
        name = f"concat('from ', lpad(CAST({start} AS VARCHAR), {len(str(greatest))}, ' '))"
        return Windows(place, f"coalesce({name}, 'no cursor')" if pairs.cursor is not None else name)
    return Windows()


def _days(least: date, greatest: date) -> int:
    first, last = (value.date() if isinstance(value, datetime) else value for value in (least, greatest))
    return (last - first).days


def _days_between(least: str, greatest: str) -> int:
    """Of texts that look like times: some, such as 0000-00-00, are in no calendar, and stand for a very long time."""
    try:
        return _days(date.fromisoformat(least[:10]), date.fromisoformat(greatest[:10]))
    except ValueError:
        return _MOST_MONTHS + 1


def _text_length(days: int) -> int:
    return 10 if days <= _MOST_DAYS else 7 if days <= _MOST_MONTHS else 4


def _by_time(column: str, days: int) -> str:
    return f"coalesce(substr(CAST({column} AS VARCHAR), 1, {_text_length(days)}), 'no cursor')"


def count_rows(pairs: Pairs, windows: Windows) -> dict[str, str]:
    """Questions for rows by window: of the source, of the table, of both by status, and keys that the table has twice."""
    both = f"WITH {_side(pairs, 's')}, {_side(pairs, 't')}, {_joined(pairs, windows.of_either())}"
    found = {
        "source": _count_side(pairs, "s", windows),
        "target": _count_side(pairs, "t", windows),
        "status": f"{both} SELECT window_name, status, sum(rows) AS rows FROM joined "
        f"WHERE status <> {_text(RowStatus.EQUAL)} GROUP BY window_name, status",
    }
    if pairs.has_key:
        keys = ", ".join(f"c{place}" for place in pairs.keys)
        least = Windows(windows.column, windows.name).name.format(f"min(c{windows.column})")
        found[RowStatus.DOUBLED.value] = (
            f"WITH {_side(pairs, 't')}, doubled AS (SELECT {least} AS window_name, count(*) - 1 AS rows "
            f"FROM t GROUP BY {keys} HAVING count(*) > 1) SELECT window_name, sum(rows) AS rows FROM doubled "
            "GROUP BY window_name"
        )
    return found


def find_rows(pairs: Pairs, status: RowStatus, most: int | None) -> str:
    """The keys of rows with a status, in their order."""
    keys = ", ".join(f"c{place} AS {quote(pairs.columns[place].source.name)}" for place in pairs.keys)
    order = ", ".join(f"c{place}" for place in pairs.keys)
    end = f" ORDER BY {order}" + ("" if most is None else f" LIMIT {int(most)}")
    if status is RowStatus.DOUBLED:
        if not pairs.has_key:
            return f"WITH {_side(pairs, 't')} SELECT {keys} FROM t WHERE false"
        return f"WITH {_side(pairs, 't')} SELECT {keys} FROM t GROUP BY {order} HAVING count(*) > 1{end}"
    both = f"WITH {_side(pairs, 's')}, {_side(pairs, 't')}, {_joined(pairs, 'NULL')}"
    return f"{both} SELECT {keys} FROM joined WHERE status = {_text(status)}{end}"


def quote(name: str) -> str:
    """An identifier."""
    return exp.to_identifier(name, quoted=True).sql("postgres")


def _text(value: str) -> str:
    return exp.Literal.string(value).sql("postgres")


def _side(pairs: Pairs, side: str) -> str:
    """One side with the columns c0, c1, ...; of the table, only rows that are not gone."""
    names = [pair.source.name if side == "s" else pair.target for pair in pairs.columns]
    columns = [f"{quote(name)} AS c{place}" for place, name in enumerate(names)]
    where = "" if side == "s" else " AND ".join(f"{quote(name)} IS NULL" for name in pairs.own.values())
    rows = f"FROM {'source' if side == 's' else 'target'}{f' WHERE {where}' if where else ''}"
    if pairs.has_key:
        return f"{side} AS (SELECT {', '.join(columns)}, 1 AS rows {rows})"
    grouped = ", ".join(map(quote, names))
    return f"{side} AS (SELECT {', '.join(columns)}, count(*) AS rows {rows} GROUP BY {grouped})"


def _count_side(pairs: Pairs, side: str, windows: Windows) -> str:
    window = windows.of(side)
    return f"WITH {_side(pairs, side)} SELECT {window} AS window_name, sum(rows) AS rows FROM {side} GROUP BY {window}"


def _joined(pairs: Pairs, window: str) -> str:
    """Every row of both sides with its status, and how many rows it stands for."""
    keys = ", ".join(f"coalesce(s.c{place}, t.c{place}) AS c{place}" for place in pairs.keys)
    match = " AND ".join(
        f"(s.c{place} = t.c{place})" if pairs.has_key else f"(s.c{place} IS NOT DISTINCT FROM t.c{place})"
        for place in pairs.keys
    )
    others = [place for place in range(len(pairs.columns)) if place not in pairs.keys]
    is_different = " OR ".join(f"(s.c{place} IS DISTINCT FROM t.c{place})" for place in others) or "false"
    more = "coalesce(s.rows, 0) {} coalesce(t.rows, 0)"
    is_equal = f"{more.format('=')} AND NOT ({is_different})"
    cases = [
        (is_equal, RowStatus.EQUAL),  # first: a row that the next load would bring may be there already
        *_excused(pairs),
        (more.format(">"), RowStatus.MISSING),
        (more.format("<"), RowStatus.TOO_MANY),
    ]
    status = " ".join(f"WHEN {condition} THEN {_text(value)}" for condition, value in cases)
    weight = f"CASE WHEN {more.format('=')} THEN s.rows ELSE abs({more.format('-')}) END"
    return (
        f"joined AS (SELECT {keys}, CASE {status} ELSE {_text(RowStatus.DIFFERENT)} END AS status, {weight} AS rows, "
        f"{window} AS window_name FROM s FULL OUTER JOIN t ON {match})"
    )


def _excused(pairs: Pairs) -> list[tuple[str, RowStatus]]:
    """Rows of the source that the table need not have."""
    place = pairs.cursor
    found: list[tuple[str, RowStatus]] = []
    if place is not None and pairs.watermark is not None:
        found.append((f"s.c{place} >= {_literal(pairs.columns[place].source, pairs.watermark)}", RowStatus.PENDING))
    if place is not None and pairs.null_cursor is NullCursor.SKIP:
        found.append((f"s.rows IS NOT NULL AND s.c{place} IS NULL", RowStatus.LEFT_OUT))
    return found


def _literal(column: SourceColumn, value: str) -> str:
    """A canonical text as a value of the column's type."""
    if column.type in _TIMES:
        text = value.removesuffix("Z") if column.type == "timestamp_ntz" else value
        return f"arrow_cast({_text(text)}, {_text(_TIMES[column.type])})"
    if column.type == "date":
        return f"CAST({_text(value)} AS DATE)"
    if column.type == "string":
        return _text(value)
    return exp.Literal.number(str(Decimal(value))).sql("postgres")
