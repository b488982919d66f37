"""Tables by name in a session's catalog, so that SQL and `spark.table` find them.

A catalog in memory lives as long as its Spark, and names stay there: another project of this process, or another target of the
same one, may need the same names for its own tables. It gets them when no run reads them any more. A catalog that others can
see, a metastore or a Connect server, is left as it is found.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import StorageError
from penstock.lake.naming import is_same_location
from penstock.lake.statements import quote, text
from penstock.model.names import DatasetName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class _Made:
    """A name that this process put into a catalog."""

    location: str
    is_view: bool
    readers: set[Hashable] = field(default_factory=set)


_made: dict[tuple[str, DatasetName], _Made] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Registrar:
    """Registers names for one reader, such as a pipeline run, until it releases them."""

    reader: Hashable

    def register(self, session: SparkSession, name: DatasetName, location: str, query: str | None) -> None:
        """Make the name stand for the table at this place, or for a query of it; StorageError when it is another's."""
        table = f"{quote(name.database)}.{quote(name.name)}"
        key = (_find_catalog(session), name)
        with _lock:
            made = _made.get(key) if session.catalog.tableExists(str(name)) else None
            if made is not None and (
                made.is_view != (query is not None) or not is_same_location(made.location, location)
            ):
                _take_away(session, name, table, made, self.reader, location)
                made = None
            if query is not None:
                session.sql(f"CREATE OR REPLACE VIEW {table} AS {query}")
            elif session.catalog.tableExists(str(name)):
                _check_same_place(session, name, table, location)  # a user may have put another there since
            else:
                session.sql(f"CREATE TABLE {table} USING DELTA LOCATION {text(location)}")
                made = _Made(location, is_view=False)
            made = made or (_Made(location, is_view=True) if query is not None else None)
            if key[0] and made is not None:
                _made[key] = made
                made.readers.add(self.reader)

    def forget(self, session: SparkSession, name: DatasetName, location: str) -> None:
        """Remove the name of a table at this place from the catalog; StorageError when it is another's."""
        with _lock:
            if session.catalog.tableExists(str(name)):
                table = f"{quote(name.database)}.{quote(name.name)}"
                _check_same_place(session, name, table, location)
                session.sql(f"DROP TABLE IF EXISTS {table}")

    def release(self) -> None:
        """Let other projects have the names."""
        with _lock:
            for made in _made.values():
                made.readers.discard(self.reader)


def _find_catalog(session: SparkSession) -> str:
    """Which catalog in memory a session has; empty for one that others see."""
    context = getattr(session, "sparkContext", None) if _is_classic(session) else None
    is_own = context is not None and session.conf.get("spark.sql.catalogImplementation") == "in-memory"
    return str(context.applicationId) if context is not None and is_own else ""


def _is_classic(session: SparkSession) -> bool:
    return hasattr(session, "_jsparkSession")


def _take_away(
    session: SparkSession, name: DatasetName, table: str, made: _Made, reader: Hashable, wanted: str
) -> None:
    others = made.readers - {reader}
    if others:
        raise StorageError(
            f"{name} is {made.location} for a run of another project that works in this Spark session now",
            hint="run again when it has ended, or use another Spark session",
        )
    if not made.is_view and not is_same_location(_find_location(session, table), made.location):
        _check_same_place(session, name, table, wanted)
        return  # a table of the user by now: dropping it could remove its rows
    session.sql(f"DROP {'VIEW' if made.is_view else 'TABLE'} IF EXISTS {table}")  # its files stay: they are not Spark's


def _check_same_place(session: SparkSession, name: DatasetName, table: str, location: str) -> None:
    found = _find_location(session, table)
    if not is_same_location(found, location):
        raise StorageError(
            f"{name} is already registered in this session's catalog at {found}, not at {location}",
            hint="use another Spark session or catalog, or drop that registration",
        )


def _find_location(session: SparkSession, table: str) -> str:
    return str(session.sql(f"DESCRIBE DETAIL {table}").select("location").collect()[0]["location"])
