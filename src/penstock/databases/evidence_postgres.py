"""What the advisor wants to know of a PostgreSQL table, by cheap bounded queries in one read-only transaction.

Catalogs and statistics first; pages are sampled only where there are no statistics. A table is counted only while it is so
small that it cannot hold more than 100,000 rows, and every statement has a time limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, LiteralString, TypeAlias

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from penstock.databases import evidence_postgres_queries as queries
from penstock.databases.declared import check_declared
from penstock.databases.postgres_activity import ACTIVITY as OPEN_TRANSACTIONS
from penstock.databases.postgres_activity import find_obstacle, to_activity
from penstock.errors import SourceError
from penstock.model.evidence import Activity, ChangeFeed, CursorEvidence, CursorType, Declared, Evidence

STATEMENT_SECONDS = 5
"""How long one question may take; what takes longer stays unknown, and the advice says so."""
COUNTED_PAGES = 343
"""A page holds at most 291 rows, so that a table with fewer pages has fewer than 100,000 and may be counted."""
SAMPLED_PAGES = 300
MOST_CURSORS = 12
"""How many columns are looked at as cursors, in the order of the table; the declared one always."""
_ANY_ZONE = 14 * 3600
"""A timestamp without a zone may be ahead by as much as any time zone is."""
_TYPES = {
    "timestamp with time zone": CursorType.ZONED,
    "timestamp without time zone": CursorType.LOCAL,
    "date": CursorType.DATE,
}
_NUMBERS = {"smallint", "integer", "bigint", "numeric"}
_NOW = re.compile(
    r"\b(now|clock_timestamp|statement_timestamp|transaction_timestamp)\(\)|\b(CURRENT|LOCAL)_?(TIMESTAMP|DATE)\b",
    re.IGNORECASE,
)
_TABLES = {"r", "p", "m"}
_OTHERS = {"v": "a view", "f": "a foreign table"}

Row: TypeAlias = dict[str, Any]
Connection: TypeAlias = "psycopg.Connection[Any]"


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table as the catalog names it."""

    oid: int
    schema: str
    name: str
    is_foreign: bool = False


def collect_postgres(connection: Connection, table: FoundTable, shown: str, declared: Declared) -> Evidence:
    """Look at one table through a connection whose cursors take `$1`; messages call it `shown`."""
    try:
        with connection.transaction():
            connection.execute("SET TRANSACTION READ ONLY")
            connection.execute(f"SET LOCAL statement_timeout = {STATEMENT_SECONDS * 1000}")
            connection.execute(
                "SET LOCAL enable_seqscan = off"
            )  # the greatest value comes from an index, or not at all
            return _Collector(connection, table, shown, declared).collect()
    except psycopg.errors.QueryCanceled:
        raise SourceError(
            f"looking at {shown} took longer than {STATEMENT_SECONDS} s",
            hint="another transaction may hold an exclusive lock on it: try again later",
            retryable=True,
        ) from None


class _Collector:
    """The questions about one table, in one transaction."""

    def __init__(self, connection: Connection, table: FoundTable, shown: str, declared: Declared) -> None:
        self._connection = connection
        self._found = table
        self._table = sql.Identifier(table.schema, table.name)
        self._shown = shown
        self._declared = declared
        self._notes: list[str] = []

    def collect(self) -> Evidence:
        """Everything, the cheapest first."""
        relation = self._ask(queries.RELATION)[0]
        if not relation["is_readable"]:
            raise SourceError(f"the user may not read {self._shown}", hint="GRANT SELECT on it, or use another user")
        self._note_refusals(relation)
        is_table = relation["relkind"] in _TABLES
        size = self._ask(queries.SIZE)[0]
        rows, is_exact = self._count(size) if is_table else self._guess(relation["relkind"])
        indexes = self._ask(queries.INDEXES)
        columns = self._ask(queries.COLUMNS)
        check_declared(self._shown, [column["name"] for column in columns], self._declared)
        primary = next((tuple(each["columns"]) for each in indexes if each["is_primary"]), ())
        server = self._ask(queries.SERVER)[0]
        return Evidence(
            self._shown,
            rows,
            is_exact,
            size["bytes"] if is_table else None,
            primary,
            tuple(_unique_keys(indexes)),
            tuple(self._cursors(columns, indexes, rows, size["pages"] if is_table else 0)),
            _to_feed(relation, server, has_key=bool(primary)),
            self._activity() if is_table else None,
            self._late_commits(),
            self._declared,
            tuple(self._notes),
        )

    def _note_refusals(self, relation: Row) -> None:
        """What a plan would refuse, whatever the strategy."""
        if relation["hides_rows"]:
            self._note(
                "A load would be refused: policies (row-level security) hide rows from this user. Grant BYPASSRLS or load a view."
            )
        if relation["refused"]:
            names = ", ".join(relation["refused"])
            self._note(
                f"A load would be refused: the user may not read {names}. GRANT SELECT, or leave them out with columns=."
            )

    def _ask(self, question: LiteralString) -> list[Row]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(question, [self._found.oid]).fetchall()

    def _measure(self, question: sql.Composed, what: str) -> Row | None:
        """The answer to a question that reads the table; None when it takes too long."""
        try:
            with self._connection.transaction(), self._connection.cursor(row_factory=dict_row) as cursor:
                return cursor.execute(question).fetchone()
        except psycopg.errors.QueryCanceled:
            self._note(f"Not measured: {what} took longer than {STATEMENT_SECONDS} s.")
        except psycopg.errors.InsufficientPrivilege:
            self._note(f"Not measured: {what}, because the user may not read every row and column.")
        return None

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _count(self, size: Row) -> tuple[int | None, bool]:
        """The number of rows, and whether they were counted."""
        if size["pages"] <= COUNTED_PAGES:
            question = sql.SQL("SELECT count(*) AS rows FROM {}").format(self._table)
            counted = self._measure(question, "the number of rows")
            if counted is not None:
                return int(counted["rows"]), True
        if size["is_known"]:
            return round(size["rows"]), False
        share = _sampled_share(size["pages"])
        question = sql.SQL("SELECT count(*) AS rows FROM {} TABLESAMPLE SYSTEM ({}) REPEATABLE (1)").format(
            self._table, sql.Literal(share)
        )
        sampled = self._measure(question, "the number of rows")
        return (round(sampled["rows"] * 100 / share) if sampled else None), False

    def _guess(self, kind: str) -> tuple[int | None, bool]:
        """The planner's guess, for what has no pages of its own."""
        self._notes.append(
            f"{self._shown} is {_OTHERS.get(kind, 'not a table')}: the planner guesses its size, "
            "and its columns cannot be sampled."
        )
        question = sql.SQL("EXPLAIN (FORMAT JSON) SELECT * FROM {}").format(self._table)
        plan = self._measure(question, "the number of rows")
        return (int(plan["QUERY PLAN"][0]["Plan"]["Plan Rows"]) if plan else None), False

    def _late_commits(self) -> str | None:
        """Why open transactions cannot be known; None when they can."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            seen = cursor.execute(sql.SQL(OPEN_TRANSACTIONS)).fetchone() or {}
        return find_obstacle(to_activity(seen), is_foreign=self._found.is_foreign)

    def _activity(self) -> Activity | None:
        seen = self._ask(queries.ACTIVITY)[0]
        return Activity(seen["inserted"], seen["updated"], seen["deleted"]) if seen["inserted"] is not None else None

    def _cursors(
        self, columns: list[Row], indexes: list[Row], rows: int | None, pages: int
    ) -> Iterable[CursorEvidence]:
        ordered = {each["columns"][0] for each in indexes if each["is_ordered"]}
        triggers = self._ask(queries.TRIGGERS)
        dated = [column for column in columns if column["type"] in _TYPES][:MOST_CURSORS]
        for column in dated + [each for each in columns if each["name"] == self._declared.cursor and each not in dated]:
            is_indexed = column["name"] in ordered
            facts = column if column["has_statistics"] else self._sample(column, pages) if pages else {}
            yield _to_cursor(column, facts, rows, is_indexed, triggers, self._ahead(column) if is_indexed else None)

    def _sample(self, column: Row, pages: int) -> Row:
        """What statistics would say about a column, from some pages of the table."""
        question = sql.SQL(
            """
            WITH sampled AS (
                SELECT {column} AS value, row_number() OVER () AS place
                FROM {table} TABLESAMPLE SYSTEM ({share}) REPEATABLE (1)
            ), ranked AS (
                SELECT place, rank() OVER (ORDER BY value) AS rank, count(*) OVER (PARTITION BY value) AS ties
                FROM sampled WHERE value IS NOT NULL
            )
            SELECT (SELECT (count(*) - count(value))::float8 / nullif(count(*), 0) FROM sampled) AS null_share,
                   (SELECT max(ties)::float8 / (SELECT count(*) FROM sampled) FROM ranked) AS top_share,
                   (SELECT corr(place, rank) FROM ranked) AS correlation
            """
        ).format(column=sql.Identifier(column["name"]), table=self._table, share=sql.Literal(_sampled_share(pages)))
        return self._measure(question, f"a sample of {column['name']}") or {}

    def _ahead(self, column: Row) -> float | None:
        """How far the greatest value lies in the future; the index has it at its end."""
        if column["type"] not in {"timestamp with time zone", "timestamp without time zone"}:
            return None
        is_local = column["type"] == "timestamp without time zone"
        question = sql.SQL(
            """
            SELECT CASE WHEN isfinite(greatest.value) THEN extract(epoch FROM greatest.value - {clock})::float8 END AS ahead,
                   isfinite(greatest.value) AS is_finite
            FROM (SELECT max({column}) AS value FROM {table}) AS greatest
            """
        ).format(
            clock=sql.SQL("(now() AT TIME ZONE 'UTC')" if is_local else "now()"),
            column=sql.Identifier(column["name"]),
            table=self._table,
        )
        found = self._measure(question, f"the greatest value of {column['name']}")
        if found is None or found["is_finite"] is None:
            return None
        if not found["is_finite"]:
            self._notes.append(f"{column['name']} holds infinity: a load never passes such a row.")
            return None
        return max(0.0, float(found["ahead"]) - (_ANY_ZONE if is_local else 0))


def _sampled_share(pages: int) -> float:
    """Per cent of the pages that are read."""
    return min(100.0, round(100.0 * SAMPLED_PAGES / max(pages, 1), 6))


def _unique_keys(indexes: list[Row]) -> Iterable[tuple[str, ...]]:
    for index in indexes:
        if index["is_unique"] and index["is_not_null"] and not index["is_primary"]:
            yield tuple(index["columns"])


def _to_cursor(
    column: Row, facts: Row, rows: int | None, is_indexed: bool, triggers: list[Row], ahead: float | None
) -> CursorEvidence:
    name, type_ = column["name"], column["type"]
    kind = _TYPES.get(type_) or (CursorType.NUMBER if type_ in _NUMBERS else CursorType.TEXT)
    distinct = _distinct(facts.get("distinct_values"), rows)
    top = facts.get("top_share")
    if top is None and distinct and column["has_statistics"]:
        top = (1 - (facts.get("null_share") or 0.0)) / distinct  # no value is common: all are about as frequent
    return CursorEvidence(
        name,
        kind,
        is_indexed,
        0.0 if column["is_not_null"] else facts.get("null_share"),
        top,
        distinct,
        facts.get("correlation"),
        bool(_NOW.search(column["default_value"] or "")),
        next((trigger["name"] for trigger in triggers if _sets(trigger, name)), None),
        ahead,
    )


def _distinct(stated: float | None, rows: int | None) -> int | None:
    """PostgreSQL states a number, or a share of the rows as a negative number."""
    if stated is None or stated == 0:
        return None
    if stated > 0:
        return round(stated)
    return None if rows is None else max(1, round(-stated * rows))


def _sets(trigger: Row, column: str) -> bool:
    """Whether a trigger's function assigns the column; `moddatetime` is told which one."""
    if trigger["function"] == "moddatetime":
        return column in trigger["arguments"].split()
    assigned = rf'\bnew\s*\.\s*"?{re.escape(column)}"?\s*:?='
    return bool(re.search(assigned, trigger["source"] or "", re.IGNORECASE))


def _to_feed(relation: Row, server: Row, *, has_key: bool) -> ChangeFeed:
    """Logical replication: what is missing for it. Penstock cannot read it yet."""
    checks: list[tuple[Callable[[], bool], str]] = [
        (lambda: server["wal_level"] != "logical", f"wal_level is {server['wal_level']}, not logical"),
        (lambda: relation["relkind"] not in {"r", "p"}, "only tables have it"),
        (lambda: relation["relpersistence"] == "u", "the table is unlogged"),
        (lambda: not server["may_replicate"], "the user may not replicate"),
        (lambda: server["slots"] >= server["most_slots"], f"all {server['most_slots']} replication slots are in use"),
        (lambda: not _has_identity(relation, has_key), "the table has no replica identity"),
        (lambda: not (server["is_published"] or relation["is_owner"]), "the user does not own the table to publish it"),
    ]
    return ChangeFeed("logical replication", tuple(text for is_missing, text in checks if is_missing()))


def _has_identity(relation: Row, has_key: bool) -> bool:
    return relation["relreplident"] in {"f", "i"} or (relation["relreplident"] == "d" and has_key)
