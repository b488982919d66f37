"""Opens a source by its declaration. Drivers are imported when they are needed."""

from __future__ import annotations

from penstock.databases.addresses import is_postgres, parse_postgres, show_other
from penstock.databases.contract import SourceTable
from penstock.databases.unobservable import AskedAtRun
from penstock.errors import SourceError
from penstock.model.loads import DeltaSource, JdbcSource, SqliteSource


def open_source(source: JdbcSource | SqliteSource | DeltaSource, zone: str | None = None) -> SourceTable:
    """A table of another system, to be closed; nothing is connected until it is asked something.

    `zone` is the time zone of a cursor that has none.
    """
    match source:
        case SqliteSource():
            from penstock.databases.sqlite import SqliteTable

            return SqliteTable(source.path, source.table)
        case JdbcSource() if is_postgres(source.connection.url):
            return _open_postgres(source, zone)
        case JdbcSource():
            return AskedAtRun(f"table {source.table} of {show_other(source.connection)}")
    raise SourceError("a Delta table is not asked through a database driver", hint="read it from the lake")


def _open_postgres(source: JdbcSource, zone: str | None) -> SourceTable:
    uri = parse_postgres(source.connection)
    check_driver()
    from penstock.databases.postgres import PostgresTable

    return PostgresTable(uri, source.table, zone)


def check_driver() -> None:
    """SourceError when the driver of PostgreSQL is not installed."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise SourceError(
            "a load from PostgreSQL needs the driver psycopg, which is not installed",
            hint="pip install 'penstock[postgres]'",
        ) from None
