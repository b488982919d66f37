"""A column that a query does not read may be renamed or added, and the query gives the same rows: tried in SQLite."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import cycle

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_facts import Columns
from penstock.definitions.sql_files import read_query
from penstock.definitions.sql_text import SqlSyntaxError

POOL = "abcdefg"
TABLES: Mapping[str, Sequence[str]] = {"t": "abcdef", "u": "bcdefg"}
Names = list[str]


class Writer:
    """Writes queries over t and u, with most names where they mean something."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._aliases = cycle("pqrsxyz")

    def query(self, depth: int, around: Names) -> str:
        kind = self._chance.randrange(6)
        if depth and kind == 0:
            inner, outer = self.query(depth - 1, around), self._select(depth - 1, around, ["w"])
            return f"WITH w AS ({inner}) {outer}"
        if depth and kind == 1:
            return " UNION ALL ".join(f"SELECT {self._column([])} FROM {self._pick('t', 'u')}" for _ in range(2))
        return self._select(depth, around, [])

    def _select(self, depth: int, around: Names, known: Names) -> str:
        first, one = self._source(depth, around, known)
        names, join = [one], ""
        if self._chance.random() < 0.5:
            second, two = self._source(depth, around, known)
            names, join = [one, two], self._join(second, [one, two, *around])
        items = ", ".join(self._item(depth, names, around) for _ in range(self._chance.randint(1, 2)))
        where = f" WHERE {self._condition(depth, [*names, *around])}" if self._chance.random() < 0.6 else ""
        order = f" ORDER BY {self._column(names)}" if self._chance.random() < 0.3 else ""
        return f"SELECT {items} FROM {first}{join}{where}{order}"

    def _join(self, source: str, names: Names) -> str:
        return self._pick(
            f", {source}",
            f" JOIN {source} USING ({self._pick(*POOL)})",
            f" JOIN {source} ON {self._condition(0, names)}",
            f" NATURAL JOIN {source}",
        )

    def _source(self, depth: int, around: Names, known: Names) -> tuple[str, str]:
        alias = next(self._aliases)
        if depth and self._chance.random() < 0.3:
            return f"({self.query(depth - 1, around)}) AS {alias}", alias
        table = self._pick("t", "u", *known)
        return (table, table) if self._chance.random() < 0.5 else (f"{table} AS {alias}", alias)

    def _item(self, depth: int, names: Names, around: Names) -> str:
        column = self._column([*names, *around])
        subquery = f"({self.query(depth - 1, [*names, *around])})" if depth else "1"
        return self._pick(
            column,
            column,
            f"{column} AS {self._pick(*POOL)}",
            f"{subquery} AS {self._pick(*POOL)}",
            f"{names[0]}.*",
            "*",
            "count(*)",
        )

    def _condition(self, depth: int, names: Names) -> str:
        test = f"{self._column(names)} >= {self._column(names)}"
        if not depth:
            return test
        inner = self.query(depth - 1, names)
        return self._pick(test, f"EXISTS ({inner})", f"{self._column(names)} IN ({inner})")

    def _column(self, names: Names) -> str:
        name = self._pick(*POOL)
        return f"{self._pick(*names)}.{name}" if names and self._chance.random() < 0.6 else name

    def _pick(self, *choices: str) -> str:
        return self._chance.choice(choices)


def run(query: str, tables: Mapping[str, Sequence[str]]) -> list[tuple[object, ...]] | None:
    """The rows of a query over small tables, or None when SQLite refuses it; a value follows from a name's last letter."""
    with closing(sqlite3.connect(":memory:")) as database:
        for table, columns in tables.items():
            database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            for row in range(3):
                values = ", ".join(str((ord(column[-1]) * (row + 1) + len(table)) % 3) for column in columns)
                database.execute(f"INSERT INTO {table} VALUES ({values})")
        try:
            return database.execute(query).fetchall()
        except sqlite3.OperationalError:
            return None


def change_unread(table: str, read: Mapping[str, object]) -> list[str]:
    """The columns of a table after every one that is not read was renamed, and every one that could be added was."""
    columns = TABLES[table]
    kept = [column if column in read else f"other_{column}" for column in columns]
    return [*kept, *(column for column in POOL if column not in read and column not in columns)]


def columns_of(query: str) -> Columns | None:
    """What a query reads; None for one that only SQLite takes: the wrong part is not used, or it takes any row of a group."""
    try:
        return read_query(query, ParseCache(None)).columns
    except SqlSyntaxError as error:
        if not any(text in error.text for text in ("must have one column", "aggregate")):
            raise
        return None


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_not_read_makes_no_difference(seed: int) -> None:
    writer = Writer(random.Random(seed))
    queries = (writer.query(2, []) for _ in range(200))
    query, before, known = next(
        (query, rows, known)
        for query in queries
        if (rows := run(query, TABLES)) is not None and (known := columns_of(query)) is not None
    )
    for table, read in known.items():
        assert run(query, {**TABLES, table: change_unread(table, read)}) == before, (query, table, sorted(read))
