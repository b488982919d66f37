"""A table of PostgreSQL, asked and read through psycopg."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from psycopg import sql

from penstock.databases import postgres_queries as queries
from penstock.databases.choosing import choose_columns, find_column
from penstock.databases.contract import Bound, Look, Origin, Seen, Wanted, Window
from penstock.databases.postgres_activity import (
    ACTIVITY,
    INTEGERS,
    TEXTS,
    TIMES,
    Activity,
    bound_times,
    bound_values,
    check_zone,
    find_obstacle,
    to_activity,
)
from penstock.databases.postgres_catalog import (
    CATALOG,
    NAMES,
    TableFacts,
    parse_table_name,
    refuse_missing,
    to_facts,
)
from penstock.databases.postgres_connection import Patience, ReadingConnection, connect, explained
from penstock.databases.postgres_moment import PostgresMoment
from penstock.model.event_log_uris import EventLogUri

_PAUSE_SECONDS = 0.05


class PostgresTable:
    """A table, view or foreign table of PostgreSQL."""

    is_observable = True
    has_one_moment = True

    def __init__(self, uri: EventLogUri, table: str, zone: str | None = None, patience: Patience | None = None) -> None:
        self._uri = uri
        self._name = parse_table_name(table)
        self._zone = zone
        if zone is not None:
            check_zone(zone)
        self._patience = patience or Patience()
        self._idle: list[ReadingConnection] = []
        self._lock = threading.Lock()
        self.shown = f"table {table} of {uri.shown}"

    def look(self) -> Look:
        """Columns, keys and estimates, from the catalog."""
        with self._connected() as connection:
            return self._facts(connection).look

    def check(self, wanted: Wanted, cursor: str | None = None) -> None:
        """Ask for no rows: the server checks rights, the condition and the order."""
        with self._connected() as connection:
            facts = self._facts(connection)
            columns = choose_columns(facts.look, wanted.columns, self.shown)
            connection.execute(queries.check(facts, columns, wanted.where, cursor))

    def find_news(
        self, window: Window, where: str | None, token: str | None = None, seen: Seen | None = None
    ) -> tuple[Look, Bound, bool]:
        """Columns, bound, and whether any row is in the window; with `seen`, whether its rows are others."""
        with self._connected() as connection:
            facts, bound = self._sample(connection, window.cursor, token, wait_seconds=0)
            until = window.until if window.until is not None else bound.value
            asked = replace(window, until=None if seen is not None and seen.is_open else until)
            if seen is not None:
                return facts.look, bound, _has_others(connection, facts, asked, where, seen)
            query, values = queries.probe(facts, asked, where)
            return facts.look, bound, connection.execute(query, values).fetchone() is not None

    @contextmanager
    def open(self, cursor: str | None = None, token: str | None = None) -> Iterator[PostgresMoment]:
        """A snapshot of the table; with a cursor, its bound is sampled first."""
        with self._connected() as connection:
            if cursor is None:
                facts, bound = self._facts(connection), None
            else:
                facts, bound = self._sample(connection, cursor, token, wait_seconds=self._patience.transactions)
            with PostgresMoment(self._uri, self.shown, self._patience, connection, facts, bound) as moment:
                yield moment

    def close(self) -> None:
        """Close connections."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    @contextmanager
    def _connected(self) -> Iterator[ReadingConnection]:
        """Lend a connection that no other thread uses; one that had an error is not used again."""
        with explained(self._uri, self.shown):
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            connection = connection or connect(self._uri, self._patience)
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            if not connection.closed:
                with self._lock:
                    self._idle.append(connection)

    def _facts(self, connection: ReadingConnection) -> TableFacts:
        return self._to_facts(connection, connection.execute(CATALOG, self._names()).fetchone())

    def _names(self) -> list[Any]:
        return [None if self._name.schema is None else list(self._name.schema), list(self._name.table)]

    def _to_facts(self, connection: ReadingConnection, row: dict[str, Any] | None) -> TableFacts:
        if row is None:
            raise refuse_missing(self.shown, self._name, connection.execute(NAMES).fetchall())
        facts = to_facts(row)
        table = json.dumps(["postgresql", row["database"], facts.schema, facts.name])
        origin = Origin(table, row["server"], json.dumps(self._uri.hosts))
        return replace(facts, look=replace(facts.look, origin=origin))

    def _sample(
        self, connection: ReadingConnection, cursor: str, token: str | None, wait_seconds: float
    ) -> tuple[TableFacts, Bound]:
        """The table and the bound of its cursor. Everything that is read must be read after this."""
        query = sql.SQL("WITH facts AS ({}), activity AS ({}) SELECT * FROM activity LEFT JOIN facts ON true").format(
            sql.SQL(CATALOG),
            sql.SQL(ACTIVITY),
        )
        row = connection.execute(query, self._names()).fetchone() or {}
        facts = self._to_facts(connection, row if row.get("oid") is not None else None)
        find_column(facts.look, cursor, self.shown)
        activity = to_activity(row)
        native = facts.types[cursor]
        obstacle = find_obstacle(activity, is_foreign=facts.is_foreign)
        if obstacle is not None:
            return facts, Bound(None, obstacle)
        if native.is_builtin and not native.is_array and native.name in TIMES:
            return facts, bound_times(activity, native.name, self._zone)
        if not native.is_builtin or native.is_array or native.name not in INTEGERS | TEXTS:
            return facts, Bound(None, f"open transactions say nothing about a cursor of type {native.text}")
        if not native.is_ordered:
            return facts, Bound(None, "different texts are equal in the collation of the cursor")
        if cursor in facts.cached:
            return facts, Bound(
                None, "sessions keep numbers of the cursor's sequence in stock (CACHE), so they come late"
            )
        return facts, self._sample_values(connection, facts, cursor, token, wait_seconds)

    def _sample_values(
        self, connection: ReadingConnection, facts: TableFacts, cursor: str, token: str | None, wait_seconds: float
    ) -> Bound:
        row = connection.execute(queries.find_greatest(facts, cursor)).fetchone()
        type_ = facts.types[cursor].name
        sample = _after(row["value"], type_, is_single=cursor in facts.singles and row["grows"]) if row else None
        least = str(-(2**63)) if type_ in INTEGERS else "0" * 32 if type_ == "uuid" else ""
        end = time.monotonic() + wait_seconds
        while True:
            bound = bound_values(self._activity(connection), sample, least, token)
            if bound.value == (least if sample is None else sample) or time.monotonic() > end:
                return bound
            token = bound.token
            time.sleep(_PAUSE_SECONDS)

    def _activity(self, connection: ReadingConnection) -> Activity:
        return to_activity(connection.execute(sql.SQL(ACTIVITY)).fetchone() or {})


def _has_others(
    connection: ReadingConnection, facts: TableFacts, window: Window, where: str | None, seen: Seen
) -> bool:
    """Whether the window has rows that were not seen; that there are none any more is no news."""
    columns = [name for name in seen.columns if name in facts.types]
    row = connection.execute(queries.mark(facts, columns, window, where)).fetchone() or {"rows": 0, "hash": None}
    mark = queries.to_mark(row)
    return row["rows"] > 0 and (mark is None or mark != seen.mark)


def _after(value: str, type_: str, *, is_single: bool) -> str:
    """The exclusive bound for a greatest value: itself, since others can still get the same one, unless it is unique."""
    if not is_single:
        return value
    if type_ in INTEGERS:
        return str(min(int(value) + 1, 2**63 - 1))
    if type_ == "uuid":
        number = min(int(value.replace("-", ""), 16) + 1, 2**128 - 1)
        return f"{number:032x}"
    return f"{value}\x01"  # the next text in every collation: none has a zero byte, and this one is not looked at
