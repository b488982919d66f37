"""What the advisor wants to know of any source, by its declaration. Only bounded reads, and no JVM."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.databases.addresses import is_postgres, parse_postgres, show_other
from penstock.databases.opening import check_driver
from penstock.errors import SourceError
from penstock.model.evidence import Declared, Evidence
from penstock.model.loads import DeltaSource, JdbcSource, LoadOptions, Source, SqliteSource


def to_declared(options: LoadOptions) -> Declared:
    """What a load declares, as far as it matters to the advisor."""
    return Declared(options.critical, False, options.keys, options.cursor, options.zone)


def collect_evidence(source: Source, declared: Declared, options: Mapping[str, str] | None = None) -> Evidence:
    """Look at a source table; SourceError when it cannot be reached, or has not what is declared.

    `options` reach the object store of a Delta table.
    """
    match source:
        case SqliteSource():
            return _look_at_sqlite(source, declared)
        case JdbcSource() if is_postgres(source.connection.url):
            return _look_at_postgres(source, declared)
        case JdbcSource():
            raise SourceError(
                f"the advisor cannot look at {source.table} of {show_other(source.connection)}: only Spark has a driver for it",
                hint="choose the strategy yourself, by the matrix in docs/advisor.md",
            )
        case DeltaSource():
            from penstock.databases.evidence_delta import collect_delta

            return collect_delta(source.path, declared, options)


def _look_at_sqlite(source: SqliteSource, declared: Declared) -> Evidence:
    from penstock.databases.evidence_sqlite import collect_sqlite
    from penstock.databases.sqlite import WAIT_SECONDS
    from penstock.databases.sqlite_connection import connect, explained
    from penstock.databases.sqlite_queries import find_table

    with explained(source.path):
        connection = connect(source.path, WAIT_SECONDS)
        try:
            table = find_table(connection, source.table, f"table {source.table} of {source.path}")
            return collect_sqlite(connection, table, declared)
        finally:
            connection.close()


def _look_at_postgres(source: JdbcSource, declared: Declared) -> Evidence:
    uri = parse_postgres(source.connection)
    check_driver()
    from penstock.databases.evidence_postgres import FoundTable, collect_postgres
    from penstock.databases.postgres_catalog import CATALOG, NAMES, parse_table_name, refuse_missing
    from penstock.databases.postgres_connection import Patience, connect, explained

    name, shown = parse_table_name(source.table), f"table {source.table} of {uri.shown}"
    with explained(uri, shown), connect(uri, Patience()) as connection:
        schemas = None if name.schema is None else list(name.schema)
        found = connection.execute(CATALOG, [schemas, list(name.table)]).fetchone()
        if found is None:
            raise refuse_missing(shown, name, connection.execute(NAMES).fetchall())
        table = FoundTable(found["oid"], found["schema"], found["name"], found["is_foreign"])
        return collect_postgres(connection, table, source.table, declared)
