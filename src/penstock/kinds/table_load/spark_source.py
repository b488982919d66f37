"""A table of a database that only a JDBC driver can reach, read by Spark over one connection.

Each question is a transaction of its own, so there is no view that all of them share. Spark compiles conditions for the database,
which gets them as SQL of its own; types that Spark would round or shift are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.databases.contract import Bound, Landed, Look, Moment, Seen, SourceColumn, Wanted, Window
from penstock.errors import SourceError
from penstock.kinds.table_load.driver_errors import explained
from penstock.model.loads import JdbcSource
from penstock.model.types import normal_type, quote_name
from penstock.model.wording import counted
from penstock.storage.files import Files
from penstock.transforms.arrow import to_frame

_NO_BOUND = "a JDBC driver cannot say which transactions are open: lookback decides"
_UNSURE = frozenset({"decimal(38,18)", "decimal(38,10)"})
"""What Spark makes of numbers without a precision: digits beyond the scale would be lost."""
_MICROSECONDS = 6
_GREGORIAN = "1582-10-15"
"""From this day on, all calendars agree."""
_DATED = (T.DateType, T.TimestampType, T.TimestampNTZType)


class SparkTable:
    """A table that Spark reads by JDBC."""

    is_observable = True
    has_one_moment = False

    def __init__(
        self, session: SparkSession, source: JdbcSource, shown: str, where: str | None, settings: Mapping[str, str]
    ) -> None:
        self.session = session
        self._settings = settings
        self._source = source
        self._where = where
        self.shown = shown

    def look(self) -> Look:
        """Its columns, by the driver's metadata."""
        with self.explained():
            fields = self._read().schema.fields
        return Look(tuple(_to_column(field) for field in fields))

    def check(self, wanted: Wanted, cursor: str | None = None) -> None:
        """What cannot be read is found when it is read."""
        del wanted, cursor

    def find_news(
        self, window: Window, where: str | None, token: str | None = None, seen: Seen | None = None
    ) -> tuple[Look, Bound, bool]:
        """It is asked when it is read."""
        del window, where, token, seen
        return self.look(), Bound(None, _NO_BOUND), True

    def open(self, cursor: str | None = None, token: str | None = None) -> AbstractContextManager[Moment]:
        """The table as each question finds it."""
        del token
        return nullcontext(SparkMoment(self, Bound(None, _NO_BOUND) if cursor is not None else None))

    def close(self) -> None:
        """Spark closes its connections itself."""

    def explained(self) -> AbstractContextManager[None]:
        """Errors of the driver in the block become ours."""
        return explained(self.shown, self._source.connection, self._settings)

    def choose(self, wanted: Wanted) -> DataFrame:
        """Rows and columns; conditions go to the database."""
        rows = self._read()
        if wanted.window is not None:
            rows = rows.where(_in_window(wanted.window, rows))
        if wanted.keys is not None:
            keys = to_frame(self.session, wanted.keys)
            rows = rows.join(F.broadcast(keys), list(wanted.keys.column_names), "left_semi")
        return rows.select(*(F.col(quote_name(_spelled(rows, name))) for name in wanted.columns))

    def _read(self) -> DataFrame:
        connection = self._source.connection
        reader = self.session.read.format("jdbc").option("url", connection.url).option("preferTimestampNTZ", "true")
        given = {"user": connection.user, "password": connection.password}
        for name, value in given.items():
            reader = reader.option(name, value) if value is not None else reader
        table = self._source.table
        chosen = f"(SELECT * FROM {table} WHERE (\n{self._where}\n)) penstock" if self._where else table  # noqa: S608
        return reader.option("fetchsize", "10000").option("dbtable", chosen).load()


class SparkMoment:
    """The table as each question finds it: a count is that of the rows that were landed."""

    def __init__(self, table: SparkTable, bound: Bound | None) -> None:
        self._table = table
        self._landed: dict[str, int] = {}
        self.bound = bound
        self.taken_at = datetime.now(UTC).isoformat()
        self.stamp: str | None = None

    def count(self, wanted: Wanted) -> int:
        """How many rows there were when they were landed, or are now."""
        known = self._landed.get(repr(wanted))
        if known is not None:
            return known
        with self._table.explained():
            return self._table.choose(wanted).count()

    def land(self, wanted: Wanted, files: Files, prefix: str) -> Landed:
        """Write the rows as Parquet; the one file of the contract is a folder here."""
        path = f"{prefix}-0000.parquet"
        place = files.spark_path(path)
        with self._table.explained():
            self._table.choose(wanted).write.mode("overwrite").parquet(place)
            landed = self._table.session.read.parquet(place)
            rows, greatest, nulls = _add_up(landed, wanted.window)
            self._check_calendar(landed)
        self._landed[repr(wanted)] = rows
        return Landed((path,), rows, greatest, nulls)

    def _check_calendar(self, landed: DataFrame) -> None:
        """SourceError for days before the Gregorian calendar: drivers and Spark count them by different calendars."""
        dated = [field.name for field in landed.schema.fields if isinstance(field.dataType, _DATED)]
        if not dated:
            return
        old = [F.count_if(F.col(quote_name(name)) < F.lit(_GREGORIAN).cast("date")) for name in dated]
        for name, rows in zip(dated, landed.agg(*old).collect()[0], strict=True):
            if rows:
                raise SourceError(
                    f"{self._table.shown}: column {name} has days before {_GREGORIAN} in {counted(rows, 'row')}, which its JDBC "
                    "driver and Spark count by different calendars; nothing was written",
                    hint="leave the column out with columns=, or load a view that gives it as text",
                )

    def mark(self, wanted: Wanted) -> str | None:
        """None: such a source is read whenever it is asked."""
        del wanted
        return None

    def split(self, wanted: Wanted, column: str, parts: int) -> Sequence[tuple[str | None, str | None]]:
        """One range: there is one connection."""
        del wanted, column, parts
        return [(None, None)]

    def sibling(self) -> AbstractContextManager[Moment]:
        """The moment itself."""
        return nullcontext(self)


def _spelled(rows: DataFrame, name: str) -> str:
    return next((known for known in rows.columns if known.lower() == name.lower()), name)


def _in_window(window: Window, rows: DataFrame) -> Column:
    name = _spelled(rows, window.cursor)
    column, type_ = F.col(quote_name(name)), rows.schema[name].dataType
    found = column.isNotNull()
    if window.since is not None:
        found &= column >= F.lit(window.since).cast(type_)
    if window.until is not None:
        found &= column < F.lit(window.until).cast(type_)
    return (found | column.isNull()) if window.nulls else found


def _add_up(rows: DataFrame, window: Window | None) -> tuple[int, str | None, int]:
    """How many rows there are, the greatest cursor as canonical text, and how many have none."""
    if window is None:
        return rows.count(), None, 0
    name = _spelled(rows, window.cursor)
    column, type_ = F.col(quote_name(name)), rows.schema[name].dataType
    facts = rows.agg(F.count(F.lit(1)), to_text(F.max(column), type_), F.count(column)).collect()[0]
    return int(facts[0]), facts[1], int(facts[0]) - int(facts[2])


def to_text(value: Column, type_: T.DataType) -> Column:
    """A value of a cursor as canonical text."""
    if isinstance(type_, T.TimestampType):
        return F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")
    if isinstance(type_, T.TimestampNTZType):
        return F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
    return value.cast("string")


def _to_column(field: T.StructField) -> SourceColumn:
    """A column, refused where Spark's type would not hold every value."""
    type_, facts = normal_type(field.dataType.simpleString()), field.metadata
    problem = None
    if type_ in _UNSURE:
        problem = "its numbers have no fixed precision, and Spark would round them"
    elif facts.get("logical_time_type"):
        problem = "it is a time of day, which Spark would turn into a date and time"
    elif type_.startswith("timestamp") and int(facts.get("scale", 0)) > _MICROSECONDS:
        problem = "it has nanoseconds, which Spark would cut off"
    return SourceColumn(field.name, type_, None if problem else type_, field.nullable, problem)
