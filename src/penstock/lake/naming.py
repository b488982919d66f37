"""Finding tables by name in a Spark session: databases, locations, and views that would hide a pipeline's dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import SessionError, StorageError, first_line
from penstock.lake.manifests import FOLDER
from penstock.lake.statements import quote, quote_table, table_parts, text
from penstock.model.names import DatasetName
from penstock.model.places import place_problem
from penstock.session.losses import best_effort
from penstock.storage.files import Files, open_files
from penstock.storage.local import LocalFiles

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


@dataclass(frozen=True, slots=True)
class Target:
    """A table outside any project: where it is, and what the catalog calls it, if it was named and not located."""

    files: Files
    name: DatasetName
    location: str
    table: str | None = None

    def register(self, session: SparkSession) -> None:
        """Make a table that was named known to the catalog, if it is new."""
        if self.table is not None:
            name_table(session, self.table, self.location)

    def find_obstacle(self) -> str | None:
        """What is where the table should be, if it is not a Delta table: a file, also above it, or a folder of something else."""
        if isinstance(self.files, LocalFiles) and (file := _find_file(self.files.root / self.name.path)) is not None:
            return f"{file} is a file" if str(file) == self.location else f"{self.location}: {file} is a file"
        is_file = self.name.name in self.files.names(self.name.database)
        folders = set(self.files.folders(self.name.path)) - {FOLDER}
        has_other = bool(self.files.names(self.name.path) or folders) and "_delta_log" not in folders
        if not is_file and not has_other:
            return None
        return f"{self.location} is {'a file' if is_file else 'a folder that has files, but no Delta table'}"


def _find_file(place: Path) -> Path | None:
    """What is at this place, or nearest above it, if it is not a folder."""
    found = next((each for each in (place, *place.parents) if os.path.lexists(each)), None)
    return found if found is not None and not found.is_dir() else None


def find_target(session: SparkSession, target: str) -> Target:
    """The table at a path, or of a name in the catalog; ValueError when the path cannot be that of a table."""
    is_path = "/" in target
    location = target.rstrip("/") if is_path else find_location(session, target)
    folder, name = split_location(location)
    return Target(
        open_files(folder, _storage_settings(session, folder)), name, location, table=None if is_path else target
    )


def split_location(location: str) -> tuple[str, DatasetName]:
    """The storage folder of a table, and the last two folders of its path as its name; ValueError when it cannot be a table's."""
    scheme, is_address, rest = location.partition("://")
    is_local = not is_address or scheme == "file"
    if not location.startswith("file:") and (problem := place_problem(location)) is not None:
        raise ValueError(f"the location of the table {problem}")
    path = str(Path(location.removeprefix("file:").removeprefix("//")).resolve()) if is_local else rest
    *above, database, name = ["", "", *path.strip("/").split("/")]
    if not database or (not is_local and len(above) < 3):
        raise ValueError(f"{location!r} is not a valid location for a table")
    folders = "/".join(above[2:])
    return f"/{folders}" if is_local else f"{scheme}://{folders}", DatasetName(database, name)


def _storage_settings(session: SparkSession, folder: str) -> dict[str, str]:
    """What the session knows about an object store; a folder on this machine needs nothing."""
    if "://" not in folder:
        return {}
    return {key: str(value) for key, value in session.conf.getAll.items() if key.startswith("spark.hadoop.")}


def find_location(session: SparkSession, table: str) -> str:
    """The location of the Delta table of this name; of one that does not exist yet, the future location."""
    if session.catalog.tableExists(table):
        return str(session.sql(f"DESCRIBE DETAIL {quote_table(table)}").select("location").collect()[0][0])
    *database, name = table_parts(table)
    where = ".".join(map(quote, database)) or quote(session.catalog.currentDatabase())
    facts = {str(row[0]): str(row[1]) for row in session.sql(f"DESCRIBE DATABASE {where}").collect()}
    return f"{facts['Location']}/{name.lower()}"


def is_same_location(one: str, other: str) -> bool:
    """Whether two addresses name the same place, however a local one is written."""
    first, second = (each.replace("file:///", "/").replace("file:/", "/").rstrip("/") for each in (one, other))
    return first == second


def name_table(session: SparkSession, table: str, location: str) -> None:
    """Register a table in the catalog by its name."""
    session.sql(f"CREATE TABLE IF NOT EXISTS {quote_table(table)} USING DELTA LOCATION {text(location)}")


@contextmanager
def use_database(session: SparkSession, files: Files, database: str, *, in_storage: bool = True) -> Iterator[None]:
    """Make this the current database for the block; afterwards the session's own one is current again.

    A database that only helps to analyze is not created in the storage.
    """
    location = f" LOCATION {text(files.spark_path(database))}" if in_storage else ""
    try:
        before = session.catalog.currentDatabase()
        session.sql(f"CREATE DATABASE IF NOT EXISTS {quote(database)}{location}")
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
