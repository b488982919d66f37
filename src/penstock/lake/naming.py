"""Finding tables by name in a Spark session: databases, locations, and views that would hide a pipeline's dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.errors import SessionError, StorageError, first_line
from penstock.lake.statements import quote, quote_table, table_parts, text
from penstock.session.losses import best_effort
from penstock.storage.files import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_no_shadows(session: SparkSession, names: Iterable[str]) -> None:
    """SessionError when the session has a temporary view with a name that definitions read: it would be read instead."""
    views = session.sql("SHOW VIEWS").where("isTemporary").select("viewName").collect()
    shadows = sorted({str(row[0]).lower() for row in views} & set(names))
    if shadows:
        raise SessionError(
            f"this session has a temporary view called {shadows[0]}, which would be read instead of the pipeline's dataset",
            hint=f'spark.catalog.dropTempView("{shadows[0]}"), or run in a session of its own',
        )


def find_location(session: SparkSession, table: str) -> str:
    """The location of the Delta table of this name; of one that does not exist yet, the future location."""
    if session.catalog.tableExists(table):
        return str(session.sql(f"DESCRIBE DETAIL {quote_table(table)}").select("location").collect()[0][0])
    *database, name = table_parts(table)
    where = ".".join(map(quote, database)) or quote(session.catalog.currentDatabase())
    facts = {str(row[0]): str(row[1]) for row in session.sql(f"DESCRIBE DATABASE {where}").collect()}
    return f"{facts['Location']}/{name.lower()}"


def name_table(session: SparkSession, table: str, location: str) -> None:
    """Register a table in the catalog by its name."""
    session.sql(f"CREATE TABLE IF NOT EXISTS {quote_table(table)} USING DELTA LOCATION {text(location)}")


@contextmanager
def use_database(session: SparkSession, files: Files, database: str) -> Iterator[None]:
    """Make this the current database for the block; afterwards the session's own one is current again."""
    try:
        before = session.catalog.currentDatabase()
        session.sql(f"CREATE DATABASE IF NOT EXISTS {quote(database)} LOCATION {text(files.spark_path(database))}")
        session.catalog.setCurrentDatabase(database)
    except Exception as error:  # noqa: BLE001 - whatever Spark's file system finds wrong with the place
        raise StorageError(
            f"Spark cannot use the storage {files.uri}: {first_line(error)}",
            hint="check the address and its credentials (spark.hadoop.fs.* settings), and run `penstock doctor`",
        ) from None
    try:
        yield
    finally:
        with best_effort():
            session.catalog.setCurrentDatabase(before)
