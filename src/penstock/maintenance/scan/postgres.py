"""An event log in PostgreSQL, by SQL: every text-like column of its schema, of its backups, and of the planner's statistics.

Rows are searched here, not in the server: a query with a value in it could end up in the server's log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from penstock.errors import ConfigError
from penstock.maintenance.scan.findings import Findings
from penstock.maintenance.scan.rows import ROWS_AT_ONCE, scan_rows
from penstock.maintenance.scan.sources import UnreadableError
from penstock.model.event_log_uris import parse_event_log_uri

_SCHEMAS = """SELECT nspname, nspname = current_schema() FROM pg_namespace
 WHERE nspname = current_schema() OR nspname LIKE 'penstock\\_backup\\_%' ORDER BY 2 DESC, 1"""
_COLUMNS = """SELECT c.relname, a.attname, t.typcategory IN ('N', 'B', 'D') OR t.typname = 'bytea'
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
 WHERE c.relnamespace = to_regnamespace(quote_ident(%s)) AND c.relkind IN ('r', 'm') AND a.attnum > 0
   AND NOT a.attisdropped ORDER BY c.relname, a.attnum"""
_STATISTICS = """SELECT tablename, attname, most_common_vals::text, histogram_bounds::text, most_common_elems::text
  FROM pg_stats WHERE schemaname = %s"""


def scan_postgres(uri: str, findings: Findings) -> int | None:
    """Search the schema of an event log; return the bytes of text that were searched, None when there is no table."""
    try:
        import psycopg
    except ImportError as error:
        raise ConfigError(
            "a scan of postgresql:// requires the package psycopg", hint='pip install "penstock[postgres]"'
        ) from error
    from penstock.eventlog.postgres_connections import to_settings

    settings = to_settings(parse_event_log_uri(uri))
    try:
        with psycopg.connect(**settings) as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            schemas = connection.execute(cast("Any", _SCHEMAS)).fetchall()
            sizes = [_scan_schema(connection, name, "" if is_own else f"{name}.", findings) for name, is_own in schemas]
    except psycopg.Error as error:
        raise UnreadableError(f"cannot be read by SQL ({type(error).__name__})") from None
    found = [size for size in sizes if size is not None]
    return sum(found) if found else None


def _scan_schema(connection: Any, schema: str, label: str, findings: Findings) -> int | None:
    from psycopg import sql

    tables: dict[str, list[tuple[str, bool]]] = {}
    for table, column, is_plain in connection.execute(_COLUMNS, (schema,)).fetchall():
        tables.setdefault(table, []).append((column, is_plain))
    searched = 0
    for table, columns in tables.items():
        chosen = [
            sql.Identifier(name) if is_plain else sql.SQL("{}::text").format(sql.Identifier(name))
            for name, is_plain in columns
        ]
        query = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(chosen), sql.Identifier(schema, table))
        for rows in _fetch(connection, query):
            searched += scan_rows(label + table, [name for name, _ in columns], rows, findings)
    for table, column, *statistics in connection.execute(_STATISTICS, (schema,)).fetchall():
        kept = [(text,) for text in statistics if text is not None]
        searched += scan_rows(f"{label}{table}, statistics of {column}", ["values"], kept, findings)
    return searched if tables else None


def _fetch(connection: Any, query: Any) -> Iterator[list[Any]]:
    with connection.cursor(name="penstock_scan") as cursor:
        cursor.itersize = ROWS_AT_ONCE
        cursor.execute(query)
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield rows
