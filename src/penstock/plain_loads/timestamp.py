"""`penstock.incremental_by_timestamp`: the rows that are new since the last load, each exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from penstock.errors import ConcurrentRunError, PlainLoadError
from penstock.faults import fault_point
from penstock.lake.retrying import retry_when_overtaken
from penstock.lake.schemas import read_schema
from penstock.lake.statements import quote
from penstock.model.clock import Clock, SystemClock
from penstock.model.loads import NullCursor
from penstock.model.progress import Manifest, TableState
from penstock.model.schema import Column, Schema
from penstock.model.spec import TableLayout
from penstock.model.types import quote_name
from penstock.plain_loads.asides import Landed, land
from penstock.plain_loads.cursors import Cursor, to_cursor
from penstock.plain_loads.fitting import fit_to_table
from penstock.plain_loads.frames import columns_of, find_columns, find_session, to_spark
from penstock.plain_loads.key_checks import check_comparable, check_no_null_keys, null_keys
from penstock.plain_loads.targets import Place, open_place
from penstock.plain_loads.values import TIMESTAMP, IncrementResult, Loaded
from penstock.session.opening import borrow, is_spark_frame
from penstock.transforms.increments import IS_AMBIGUOUS, IS_NEW, find_missing_copies, find_newer_rows

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from penstock.lake.delta_log import Commit


def incremental_by_timestamp(
    source: object | Callable[[Any], object],
    cursor: str,
    into: str,
    *,
    keys: Sequence[str] | None = None,
    lookback: str | timedelta | int | Decimal | None = None,
    null_cursor: str = "fail",
    spark: SparkSession | None = None,
) -> IncrementResult:
    """Load the rows of `source` that are new since the last load into the Delta table `into`, each exactly once.

    `source` is a frame, or a function that gets the value from which on rows are needed (None at first) and returns a frame with
    all rows whose cursor is that value or greater. With `keys`, the newest row of each key is stored; without, rows are appended.
    `lookback` is how late rows may appear; `null_cursor` says what happens to rows without a cursor: "fail", "reload" or "skip".
    """
    wanted = _Wanted(source, cursor, into, keys, lookback, _to_rule(null_cursor))
    session = find_session(source, spark)
    with borrow(session):
        return retry_when_overtaken(_load, wanted, session, SystemClock())


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the user asked for."""

    source: object
    cursor: str
    into: str
    keys: Sequence[str] | None
    lookback: str | timedelta | int | Decimal | None
    null_cursor: NullCursor


def _to_rule(null_cursor: str) -> NullCursor:
    try:
        return NullCursor(null_cursor)
    except ValueError:
        rules = ", ".join(repr(rule.value) for rule in NullCursor)
        raise PlainLoadError(
            "null_cursor", f"null_cursor is {null_cursor!r}; it must be one of {rules}", hint='the default is "fail"'
        ) from None


def _load(wanted: _Wanted, session: SparkSession, clock: Clock) -> IncrementResult:
    place = open_place(session, wanted.into)
    base = place.read_base()
    state = place.read_state(TIMESTAMP)
    now = clock.now_ns()  # before the source is read: what appears meanwhile is read next time
    load = _open_load(wanted, session, place, state)
    facts = [F.count_if(load.value.isNull()), load.to_text(F.max(load.value)), *null_keys(load.keys)]
    with land(place.lake, place.name, load.window, facts) as landed:
        nulls, greatest, *key_nulls = landed.facts
        load.check(int(str(nulls)), key_nulls)
        skipped = int(str(nulls)) if load.rule is NullCursor.SKIP else 0
        known = state.payload.watermark if state.payload else None
        reached = load.cursor.advance(known, None if greatest is None else str(greatest), now)
        if not landed.content.rows - skipped:
            return IncrementResult(0, 0, 0, skipped, load.cursor.to_value(known), None)
        if not state.exists:
            base = load.create()
        elif load.added:
            base = load.add_columns(base)
        with load.find_difference(landed) as (rows, added, updated):
            if not added + updated:
                return IncrementResult(landed.content.rows - skipped, 0, 0, skipped, load.cursor.to_value(known), None)
            commit = load.commit(rows, base, reached)
    fault_point("plain.after_commit", str(place.name))
    place.target.register(session)
    shown = load.cursor.to_value(reached)
    return IncrementResult(landed.content.rows - skipped, added, updated, skipped, shown, commit.version)


def _open_load(wanted: _Wanted, session: SparkSession, place: Place, state: TableState[Loaded]) -> _Load:
    known = state.payload
    given = wanted.source
    if callable(given) and not is_spark_frame(given):
        last = to_cursor(known.cursor, known.cursor_type, wanted.lookback) if known else None
        given = given(last.to_value(last.since(known.watermark)) if last and known else None)
    if state.exists and isinstance(given, list | tuple) and not given:
        given = place.lake.read(place.name).limit(0)  # an empty list has no columns
    rows = to_spark(given, session, "source" if given is wanted.source else "what the source function returned")
    columns, added = columns_of(rows), tuple[Column, ...]()
    (cursor_name,) = find_columns(rows.columns, [wanted.cursor], "cursor")
    keys = find_columns(rows.columns, wanted.keys, "keys")
    if state.exists:
        columns_now = read_schema(place.lake.files, place.name).columns
        rows, added = fit_to_table(rows, columns, columns_now, may_add=bool(keys))
        columns = (*columns_now, *added)
    by_key = {column.key: column for column in columns}
    cursor = to_cursor(by_key[cursor_name.lower()].name, by_key[cursor_name.lower()].type, wanted.lookback)
    keys = tuple(by_key[key.lower()].name for key in keys)
    check_comparable(rows, keys)
    load = _Load(place, rows, columns, added, cursor, keys, wanted.null_cursor, known)
    load.check_same()
    return load


@dataclass(frozen=True, slots=True)
class _Load:
    """One load: the rows that were given, in the columns of the table."""

    place: Place
    rows: DataFrame
    columns: tuple[Column, ...]
    added: tuple[Column, ...]
    """Those that the table does not have yet."""
    cursor: Cursor
    keys: tuple[str, ...]
    rule: NullCursor
    known: Loaded | None

    @property
    def value(self) -> SparkColumn:
        return F.col(quote_name(self.cursor.name))

    @property
    def since(self) -> str | None:
        return self.cursor.since(self.known.watermark) if self.known else None

    @property
    def window(self) -> DataFrame:
        """The rows that may be new."""
        return self.rows.where(self.is_in_window | self.value.isNull())

    @property
    def is_in_window(self) -> SparkColumn:
        return F.lit(True) if self.since is None else self.value >= self.to_literal(self.since)

    def to_literal(self, text: str) -> SparkColumn:
        """A value of the cursor from its exact text."""
        if self.cursor.type == "timestamp":
            return F.timestamp_micros(F.lit(int(text)))
        return F.lit(text).cast(self.cursor.widest_type)

    def to_text(self, value: SparkColumn) -> SparkColumn:
        """The exact text of a value of the cursor."""
        return (F.unix_micros(value) if self.cursor.type == "timestamp" else value).cast("string")

    def check_same(self) -> None:
        """PlainLoadError when the table was loaded by another cursor or other keys: what is new could not be told."""
        if self.known is None:
            return
        before = (self.known.cursor.lower(), [key.lower() for key in self.known.keys])
        if before != (self.cursor.name.lower(), [key.lower() for key in self.keys]):
            keys = f"keys {list(self.known.keys)}" if self.known.keys else "no keys"
            raise PlainLoadError(
                "other_load",
                f"the table was loaded by the cursor {self.known.cursor!r} and {keys}; nothing was written",
                hint="use the same, or load into another table",
            )

    def check(self, nulls: int, key_nulls: Sequence[object]) -> None:
        """PlainLoadError for rows that the load must not take."""
        check_no_null_keys(self.keys, key_nulls)
        if nulls and self.rule is NullCursor.FAIL:
            raise PlainLoadError(
                "null_cursor",
                f"the cursor {self.cursor.name!r} is NULL in {nulls} rows; nothing was written",
                hint='null_cursor="reload" compares such rows in every load, null_cursor="skip" leaves them out',
            )

    def create(self) -> int:
        """Create the table, empty at first, so that two first loads cannot replace each other."""
        lake, name = self.place.lake, self.place.name
        begun = lake.begin(self._manifest(None, None), name)
        if lake.state(name).exists:  # from here on, another writer's append fences this load off
            raise ConcurrentRunError(f"{name} was created by another writer meanwhile", hint="run again")
        fault_point("plain.before_create", str(name))
        lake.replace(self.rows.limit(0), name, begun.number, TableLayout())
        fault_point("plain.after_create", str(name))
        return begun.number

    def add_columns(self, base: int | None) -> int:
        """Add the new columns to the table, as a load of its own without rows."""
        lake, name = self.place.lake, self.place.name
        lake.prepare_evolution(name, {column.name: column.type for column in self.added}, widen=False)
        watermark = self.known.watermark if self.known else None
        begun = lake.begin_append(self._manifest(base, watermark), name, base)
        lake.append(self.rows.limit(0), name, begun.number, evolve=True)
        return begun.number

    @contextmanager
    def find_difference(self, landed: Landed) -> Iterator[tuple[DataFrame, int, int]]:
        """The rows to write; how many are new, and how many replace others."""
        rows = landed.rows.where(self.value.isNotNull()) if self.rule is NullCursor.SKIP else landed.rows
        stored = self.place.lake.read(self.place.name).select(*map(quote_name, rows.columns))
        if self.keys:
            found = find_newer_rows(rows, stored, self.keys, self.cursor.name).persist()
            counts = found.agg(F.count_if(IS_NEW), F.count_if(~F.col(IS_NEW)), F.count_if(IS_AMBIGUOUS))
        else:
            found = find_missing_copies(rows, stored.where(self.is_in_window | self.value.isNull())).persist()
            counts = found.agg(F.count(F.lit(1)), F.lit(0), F.lit(0))
        try:
            added, updated, ambiguous = counts.collect()[0]
            self._check_unambiguous(int(ambiguous))
            yield found.drop(IS_NEW, IS_AMBIGUOUS), int(added), int(updated)
        finally:
            found.unpersist()

    def _check_unambiguous(self, keys: int) -> None:
        if keys:
            raise PlainLoadError(
                "ambiguous_key",
                f"{keys} keys ({', '.join(self.keys)}) have several different rows with the same cursor; nothing was written",
                hint="correct the source, or declare keys that identify a row",
            )

    def commit(self, rows: DataFrame, base: int | None, watermark: str | None) -> Commit:
        """Write the rows and the watermark in one commit."""
        lake, name = self.place.lake, self.place.name
        begun = lake.begin_append(self._manifest(base, watermark), name, base)
        fault_point("plain.before_commit", str(name))
        if not self.keys:
            return lake.append(rows, name, begun.number)
        same_key = " AND ".join(f"t.{quote(key)} = s.{quote(key)}" for key in self.keys)
        new = "WHEN NOT MATCHED THEN INSERT *"
        return lake.merge_into(rows, same_key, name, begun.number, f"WHEN MATCHED THEN UPDATE SET * {new}")

    def _manifest(self, parent: int | None, watermark: str | None) -> Manifest:
        payload = Loaded(self.cursor.name, self.cursor.type, self.keys, watermark)
        encoded = TIMESTAMP.encode(payload)
        name = str(self.place.name)
        return Manifest(name, 0, parent, TIMESTAMP.kind, schema=Schema(self.columns), payload=encoded)
