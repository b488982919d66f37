"""Loads from tables, as values: where the rows come from, and how they get into a table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

DELETED_AT = "__DELETED_AT"
"""The column of a load with soft deletes: when a row was found missing in the source; NULL while the source has it."""


class Strategy(StrEnum):
    """How a load finds out what changed."""

    AUTO = "auto"
    """The advisor chooses one of the others, once; the choice is recorded."""
    FULL_REFRESH = "full_refresh"
    TIMESTAMP = "timestamp"
    SNAPSHOT = "snapshot"


class Deletes(StrEnum):
    """What happens to rows that the source no longer has."""

    IGNORE = "ignore"
    SOFT = "soft"
    """They keep their last values and get a time in `__DELETED_AT`."""
    HARD = "hard"


class NullCursor(StrEnum):
    """What a timestamp load does with rows whose cursor is NULL; they are never dropped silently."""

    FAIL = "fail"
    RELOAD = "reload"
    """Read all of them in every load, and merge them by key."""
    SKIP = "skip"
    """Leave them out, and count them in the result."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How a database is reached. May hold a password, so it is not part of what is printed."""

    url: str = field(repr=False)
    """A JDBC URL, or a PostgreSQL URI."""
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    driver: str | None = None
    """Maven coordinates of a JDBC driver, where Spark has to read the table."""
    name: str | None = None
    """Its name under `connections:` in penstock.yml."""
    password_file: str | None = None
    """The file that has the password; read when a connection is made."""


@dataclass(frozen=True, slots=True)
class JdbcSource:
    """A table of a database."""

    connection: Connection
    table: str
    """`schema.table` or `table`, as the user wrote it."""


@dataclass(frozen=True, slots=True)
class SqliteSource:
    """A table of a SQLite file."""

    path: str
    table: str


@dataclass(frozen=True, slots=True)
class DeltaSource:
    """A Delta table that no definition of this project makes."""

    path: str

    @property
    def table(self) -> str:
        return self.path


Source: TypeAlias = JdbcSource | SqliteSource | DeltaSource


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Everything a load declares, checked."""

    source: Source
    strategy: Strategy = Strategy.AUTO
    keys: tuple[str, ...] = ()
    cursor: str | None = None
    lookback: int | None = None
    """Seconds that rows may be committed late; None where the source itself bounds it (PostgreSQL's open transactions)."""
    zone: str | None = None
    """The time zone of a cursor without one."""
    null_cursor: NullCursor = NullCursor.FAIL
    deletes: Deletes = Deletes.IGNORE
    check_deletes: str = "daily"
    """`always`, `daily`, `never`, or a cron expression."""
    columns: tuple[str, ...] | None = None
    where: str | None = None
    """A condition in the source's SQL; pushed down."""
    scd_type: int = 1
    """How a snapshot is stored: current rows (1), or their history (2)."""
    allow_empty: bool = False
    most_deleted: float = 0.5
    """A delete check that would remove a greater share of the rows is refused."""
    parallel: int = 4
    """Connections that read chunks of a large table at the same time, where the source can show all of them one moment."""
    critical: bool = False


_COORDINATES = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]*:){2}[A-Za-z0-9][A-Za-z0-9._-]*")
"""Nothing that could leave the XML or the folder that a part becomes part of."""


def find_driver_problem(driver: str) -> str | None:
    """What is wrong with the Maven coordinates of a JDBC driver; None when nothing is."""
    if _COORDINATES.fullmatch(driver):
        return None
    return "must be Maven coordinates, group:artifact:version, such as com.mysql:mysql-connector-j:9.4.0"


def find_drivers(loads: Iterable[LoadOptions | None]) -> tuple[str, ...]:
    """The JDBC drivers that these loads name, as Maven coordinates."""
    sources = [load.source for load in loads if load is not None]
    found = {source.connection.driver for source in sources if isinstance(source, JdbcSource)}
    return tuple(sorted(driver for driver in found if driver is not None))
