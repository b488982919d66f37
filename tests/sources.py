"""Tables of other systems for tests: open them, land them, and read back what was landed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.databases.addresses import parse_postgres
from penstock.databases.contract import Landed, Moment, SourceTable, Wanted, Window
from penstock.databases.opening import open_source
from penstock.databases.postgres import PostgresTable
from penstock.databases.postgres_connection import Patience
from penstock.model.loads import Connection, JdbcSource
from penstock.storage.local import LocalFiles


class Schema:
    """A schema of its own in a real PostgreSQL."""

    def __init__(self, server: str) -> None:
        self.name = f"s_{uuid.uuid4().hex[:12]}"
        self.uri = f"{server}&options={quote(f'-csearch_path={self.name}')}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {self.name}")  # type: ignore[arg-type]

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection:
        return psycopg.connect(self.uri, autocommit=autocommit)

    def execute(self, *statements: str) -> None:
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[arg-type]

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with self.connect() as connection:
            return connection.execute(query).fetchall()  # type: ignore[arg-type]

    @contextmanager
    def table(self, name: str, zone: str | None = None, patience: Patience | None = None) -> Iterator[SourceTable]:
        source = JdbcSource(Connection(self.uri), name)
        if patience is None:
            table = open_source(source, zone)
        else:
            table = PostgresTable(parse_postgres(source.connection), name, zone, patience)
        try:
            yield table
        finally:
            table.close()

    def drop(self) -> None:
        self.execute(f"DROP SCHEMA {self.name} CASCADE")


def land(
    moment: Moment, table: SourceTable, folder: Path, *, window: Window | None = None, **wanted: object
) -> tuple[Landed, pa.Table]:
    """Land all columns of a moment; gives what was said about it, and the rows."""
    columns = wanted.pop("columns", None) or tuple(column.name for column in table.look().columns)
    prefix = f"landed/{uuid.uuid4().hex}"
    found = moment.land(Wanted(columns=columns, window=window, **wanted), LocalFiles(folder), prefix)  # type: ignore[arg-type]
    return found, pa.concat_tables([pq.read_table(folder / file) for file in found.files])
