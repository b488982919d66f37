"""The statements that a load sends to PostgreSQL. Identifiers and values are quoted by psycopg: COPY cannot bind any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from psycopg import sql

from penstock.databases.contract import SourceColumn, Wanted, Window
from penstock.databases.postgres_activity import INTEGERS
from penstock.databases.postgres_catalog import TableFacts
from penstock.databases.postgres_types import is_json, to_expression, to_unfit

if TYPE_CHECKING:
    import pyarrow as pa

_KEYS_AT_ONCE = 20_000
MOST_MARKED = 10_000
"""How many rows are hashed at most, to find out whether they changed; a larger window is read again instead."""
GROWING = ("text", "varchar")


def select(facts: TableFacts, what: sql.Composable, condition: sql.Composable) -> sql.Composed:
    """A query on the table."""
    return sql.SQL("SELECT {} FROM {} AS t WHERE {}").format(what, sql.Identifier(facts.schema, facts.name), condition)


def copy(facts: TableFacts, columns: tuple[SourceColumn, ...], condition: sql.Composable) -> sql.Composed:
    """A COPY of the rows."""
    expressions = [to_expression(column.name, facts.types[column.name]) for column in columns]
    return sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(select(facts, sql.SQL(", ").join(expressions), condition))


def count_unfit(facts: TableFacts, columns: tuple[SourceColumn, ...], condition: sql.Composable) -> sql.Composed | None:
    """A query that counts, for each column, the values that cannot be loaded."""
    tests = [(column.name, to_unfit(column.name, facts.types[column.name])) for column in columns]
    counts = [
        sql.SQL("count(*) FILTER (WHERE {}) AS {}").format(test, sql.Identifier(name))
        for name, test in tests
        if test is not None
    ]
    return select(facts, sql.SQL(", ").join(counts), condition) if counts else None


def find_end(facts: TableFacts, column: str, order: sql.SQL) -> sql.Composed:
    """The least (`ASC`) or greatest (`DESC`) value of a column, from the end of its index."""
    name = sql.Identifier("t", column)
    end = sql.SQL("{} IS NOT NULL ORDER BY {} {} LIMIT 1").format(name, name, order)
    return select(facts, sql.SQL("{}::text AS value").format(name), end)


def find_greatest(facts: TableFacts, column: str) -> sql.Composed:
    """The greatest value of a column, and whether a text grows when a control character follows: not in every collation."""
    name = sql.Identifier("t", column)
    grows = (
        sql.SQL("{} < {} || E'\\x01'").format(name, name) if facts.types[column].name in GROWING else sql.SQL("true")
    )
    end = sql.SQL("{} IS NOT NULL ORDER BY {} DESC LIMIT 1").format(name, name)
    return select(facts, sql.SQL("{}::text AS value, {} AS grows").format(name, grows), end)


def check(facts: TableFacts, columns: tuple[SourceColumn, ...], where: str | None, cursor: str | None) -> sql.Composed:
    """A query without rows: it is checked as a whole, and nothing is read."""
    names = [sql.Identifier("t", column.name) for column in columns]
    condition = sql.SQL(" AND ").join([*_where(where), sql.SQL("true")])
    order = sql.SQL(" ORDER BY {}").format(sql.Identifier("t", cursor)) if cursor is not None else sql.SQL("")
    return sql.SQL("{}{} LIMIT 0").format(select(facts, sql.SQL(", ").join(names), condition), order)


def probe(facts: TableFacts, window: Window, where: str | None) -> tuple[sql.Composed, list[str]]:
    """Whether there is a row in a window, with its parameters: one look at the index."""
    column = sql.Identifier("t", window.cursor)
    limits = [value for value in (window.since, window.until) if value is not None]
    places = iter(range(1, 3))
    inside = _window(
        facts,
        replace(window, nulls=False),
        lambda _: sql.SQL(f"${next(places)}"),
    )
    news = select(facts, sql.SQL("1 AS found"), sql.SQL(" AND ").join([*_where(where), inside]))
    query = sql.SQL("({} ORDER BY {} LIMIT 1)").format(news, column)
    if window.nulls:
        nulls = select(
            facts, sql.SQL("1"), sql.SQL(" AND ").join([*_where(where), sql.SQL("{} IS NULL").format(column)])
        )
        query = sql.SQL("{} UNION ALL ({} LIMIT 1) LIMIT 1").format(query, nulls)
    return query, limits


def mark(facts: TableFacts, columns: Sequence[str], window: Window, where: str | None) -> sql.Composed:
    """How many rows are in a window, and a sum of their hashes that does not depend on their order; few rows, by the index."""
    column = sql.Identifier("t", window.cursor)
    values = sql.SQL(", ").join(sql.Identifier("t", name) for name in columns)
    # The text of a row is compared byte by byte: only the collation C does that in every database.
    hashed = sql.SQL('pg_catalog.hashtextextended(ROW({})::text COLLATE "C", 0) AS hash').format(values)
    inside = _window(facts, replace(window, nulls=False), sql.Literal)
    limit = sql.Literal(MOST_MARKED + 1)
    chosen = select(facts, hashed, sql.SQL(" AND ").join([*_where(where), inside]))
    rows = sql.SQL("({} ORDER BY {} LIMIT {})").format(chosen, column, limit)
    if window.nulls:
        missing = [*_where(where), sql.SQL("{} IS NULL").format(column)]
        nulls = select(facts, hashed, sql.SQL(" AND ").join(missing))
        rows = sql.SQL("{} UNION ALL ({} LIMIT {})").format(rows, nulls, limit)
    return sql.SQL("SELECT count(*) AS rows, sum(hash)::text AS hash FROM ({}) AS marked").format(rows)


def to_mark(row: Mapping[str, Any]) -> str | None:
    """What the query found, as text; None when there are too many rows."""
    return None if row["rows"] > MOST_MARKED else f"{row['rows']} {row['hash'] or 0}"


def to_conditions(facts: TableFacts, wanted: Wanted) -> Iterator[sql.Composable]:
    """Which rows are wanted, as the end of a statement; several disjoint ones where many keys are wanted."""
    parts = _where(wanted.where)
    if wanted.window:
        parts.append(_window(facts, wanted.window, sql.Literal))
    if wanted.chunk and wanted.chunk_column:
        parts += _chunk(sql.Identifier("t", wanted.chunk_column), *wanted.chunk)
    if wanted.keys is None:
        yield sql.SQL(" AND ").join(parts) if parts else sql.SQL("true")
        return
    keys = wanted.keys.group_by(wanted.keys.column_names).aggregate([])
    for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
        yield sql.SQL(" AND ").join([*parts, _keys(facts, keys.slice(start, _KEYS_AT_ONCE))])


def _where(where: str | None) -> list[sql.Composable]:
    # A line of its own, because it may end with a comment. It is the user's own text, in the project file.
    return [sql.SQL("(\n{}\n)").format(sql.SQL(where))] if where else []


def _window(facts: TableFacts, window: Window, value: Any) -> sql.Composable:
    column = sql.Identifier("t", window.cursor)
    cast = sql.SQL("::bigint" if facts.types[window.cursor].name in INTEGERS else "")
    limits = [(sign, limit) for sign, limit in ((">=", window.since), ("<", window.until)) if limit is not None]
    tests = [sql.SQL("{} {} {}{}").format(column, sql.SQL(sign), value(limit), cast) for sign, limit in limits]
    inside = sql.SQL(" AND ").join(tests) if tests else sql.SQL("{} IS NOT NULL").format(column)
    return sql.SQL("({} OR {} IS NULL)").format(inside, column) if window.nulls else sql.SQL("({})").format(inside)


def _chunk(column: sql.Composable, since: str | None, until: str | None) -> list[sql.Composable]:
    parts: list[sql.Composable] = []
    if since is not None:
        parts.append(sql.SQL("{} >= {}").format(column, sql.Literal(since)))
    if until is not None:
        nulls = sql.SQL("") if since is not None else sql.SQL(" OR {} IS NULL").format(column)
        parts.append(sql.SQL("({} < {}{})").format(column, sql.Literal(until), nulls))
    return parts


def _keys(facts: TableFacts, keys: pa.Table) -> sql.Composable:
    """Rows with one of these keys. The values are texts that the server turns into the types of the columns.

    Columns that arrive as JSON are compared as what arrives.
    """
    names = keys.column_names
    arrays = [
        sql.SQL("{}::text[]").format(sql.Literal([_to_text(value) for value in column.to_pylist()]))
        for column in keys.columns
    ]
    types = ["text" if is_json(facts.types[name]) else facts.types[name].text for name in names]
    given = [sql.SQL("k.{}::{}").format(sql.Identifier(f"k{i}"), sql.SQL(type_)) for i, type_ in enumerate(types)]
    columns = [
        to_expression(name, facts.types[name]) if is_json(facts.types[name]) else sql.Identifier("t", name)
        for name in names
    ]
    return sql.SQL("({}) IN (SELECT {} FROM unnest({}) AS k({}))").format(
        sql.SQL(", ").join(columns),
        sql.SQL(", ").join(given),
        sql.SQL(", ").join(arrays),
        sql.SQL(", ").join(sql.Identifier(f"k{number}") for number in range(len(names))),
    )


def _to_text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return None if value is None else str(value)
