"""The tables as a plan will leave them, to be read by definitions that are only analyzed. Nothing is written.

A table that keeps its columns is read as it is. One that does not exist yet, or gets other columns, has no rows here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import StorageError
from penstock.lake.statements import quote
from penstock.lake.tables import Lake
from penstock.model.names import DatasetName
from penstock.model.schema import Schema
from penstock.session.losses import best_effort

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class NotAnalyzableError(StorageError):
    """What cannot be known before the work is done; no fault of a definition."""


@dataclass(slots=True)
class PlannedLake(Lake):
    """Gives definitions the columns that their inputs will have."""

    _columns: dict[DatasetName, Schema] = field(default_factory=dict)
    _views: list[str] = field(default_factory=list)
    _databases: list[str] = field(default_factory=list)

    def expect(self, name: DatasetName, schema: Schema) -> None:
        """From now on the table has these columns, and no rows."""
        self._columns[name] = schema

    def has_rows(self, name: DatasetName) -> bool:
        """Whether the table itself is read."""
        return name not in self._columns

    def read_shown(self, name: DatasetName) -> DataFrame:
        """The rows as users see them; none of a table that has to be built first."""
        return Lake.read_shown(self, name) if self.has_rows(name) else self.session.sql(self._query(name))

    def register(self, name: DatasetName) -> None:
        """Make a view for the table, which is dropped with the others; a name that the session has already is kept."""
        with self._lock:
            if name in self._registered:
                return
            self._make_database(name.database)
            table = f"{quote(name.database)}.{quote(name.name)}"
            if not self.session.catalog.tableExists(str(name)):
                self.session.sql(f"CREATE VIEW {table} AS {self._query(name)}")
                self._views.append(table)
            elif not self.has_rows(name):
                raise NotAnalyzableError(
                    f"{name} gets other columns, and this session's catalog already has a table of this name",
                    hint="analyze in a Spark session of its own",
                )
            self._registered.add(name)

    def close(self) -> None:
        """Drop what was made in the session's catalog."""
        for view in self._views:
            with best_effort():
                self.session.sql(f"DROP VIEW IF EXISTS {view}")
        for database in self._databases:
            with best_effort():
                self.session.sql(f"DROP DATABASE IF EXISTS {database}")

    def _make_database(self, database: str) -> None:
        if not self.session.catalog.databaseExists(database):
            self.session.sql(f"CREATE DATABASE {quote(database)}")
            self._databases.append(quote(database))

    def _query(self, name: DatasetName) -> str:
        if not self.has_rows(name):
            values = (f"CAST(NULL AS {column.type}) AS {quote(column.name)}" for column in self._columns[name].columns)
            return f"SELECT {', '.join(values)} WHERE false"
        shown = ", ".join(map(quote, Lake.read_shown(self, name).columns))
        return f"SELECT {shown} FROM delta.{quote(self.files.spark_path(name.path))}"  # noqa: S608 - quoted
