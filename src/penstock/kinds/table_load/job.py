"""What every strategy shares: landed rows as frames, their checks, the keys that are left out, and the progress manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.databases.contract import Look, Moment, SourceTable, Wanted
from penstock.errors import SourceError, VerificationError
from penstock.faults import fault_point
from penstock.kinds.table_load.columns import chosen_columns, of_source, spelled, to_known
from penstock.kinds.table_load.landed_keys import MOST_ROWS, KeyCounts, count_keys, is_countable
from penstock.kinds.table_load.landing import Landing
from penstock.kinds.table_load.progress import CODEC, LoadProgress
from penstock.kinds.table_load.values import LoadWork
from penstock.lake.restating import restate
from penstock.lake.tables import Lake
from penstock.model.names import DatasetName
from penstock.model.progress import Manifest
from penstock.model.results import LoadResult
from penstock.model.schema import Column, Schema
from penstock.model.spec import TableLayout
from penstock.model.types import quote_name
from penstock.model.wording import counted
from penstock.storage.addresses import to_glob_literal
from penstock.tombstones.suppression import Suppression
from penstock.transforms.conform import conform_field
from penstock.transforms.partition_columns import refuse_unstorable
from penstock.transforms.suppress import TOMBSTONE, Screen, check_key_columns

ROWS = "__penstock_rows"
"""A count beside the columns of a source, which may have any name."""
_RESTATED = ("watermark", "token", "mark", "stamp", "identity", "origin", "checked_at")
"""What the next plan asks about."""
_VECTORS = ("delta.enableDeletionVectors", "true")
"""A merge by key then writes the rows that change, and not the files that they are in."""


@dataclass(frozen=True, slots=True)
class Job:
    """One load of one table."""

    lake: Lake
    work: LoadWork
    build_request_id: str
    suppression: Suppression
    table: SourceTable | None
    """None for a Delta table, which Spark reads itself."""
    look: Look
    schema: Schema
    configuration: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> DatasetName:
        return self.work.spec.name

    @property
    def source(self) -> SourceTable:
        if self.table is None:
            raise ValueError(f"{self.name} is not read through a database")
        return self.table

    @property
    def landing(self) -> Landing:
        return Landing(self.lake.files, self.name, self.build_request_id)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The table's columns that come from the source."""
        return of_source(self.schema).columns

    @property
    def present(self) -> tuple[Column, ...]:
        """Those of them that the source still has: it says nothing about the others, which keep their values."""
        found = {column.name.lower() for column in chosen_columns(self.look, self.work.options)}
        return tuple(column for column in self.columns if column.key in found)

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns, as the table spells them."""
        return tuple(spelled(self.columns, key) for key in self.work.options.keys)

    @property
    def wanted(self) -> Wanted:
        """All columns and rows of the load."""
        names = tuple(column.name for column in chosen_columns(self.look, self.work.options))
        return Wanted(names, self.work.options.where)

    @property
    def wanted_keys(self) -> Wanted:
        """The keys of all rows; with the cursor, so that rows without one can be told."""
        options = self.work.options
        names = [*options.keys, *([options.cursor] if options.cursor else ())]
        found = dict.fromkeys(spelled(self.look.columns, name) for name in names)
        return Wanted(tuple(found), options.where)

    def read(self, files: Sequence[str]) -> DataFrame:
        """Landed rows with the columns and types of the table; those that the files lack are NULL."""
        found = self.read_as_landed(files)
        return found.select(*(conform_field(found.schema.fields, c.name, c.type) for c in self.columns))

    def read_as_landed(self, files: Sequence[str]) -> DataFrame:
        """Landed rows with the types that they were landed with; columns that the files lack are NULL."""
        paths = [to_glob_literal(self.lake.files.spark_path(file)) for file in files]
        reader = self.lake.session.read
        if self._is_landed_exactly:  # Spark need not look into a file to know its columns, which is a job
            columns = chosen_columns(self.look, self.work.options)
            reader = reader.schema(", ".join(f"{quote_name(c.name)} {c.type}" for c in columns))
        return reader.parquet(*paths)

    @property
    def _is_landed_exactly(self) -> bool:
        """Whether landed files are Parquet files with the types of the look; Spark lands rows of other databases itself."""
        return self.table is not None and self.table.is_observable

    def check(self, rows: DataFrame, expected: int, files: Sequence[str] = ()) -> None:
        """Before anything is written: as many rows as the source counted, and keys that are unique and not NULL.

        `files` are those that were landed, where the rows are what is in them.
        """
        found = self._count_landed(files, expected) or self._count(rows)
        self.landing.check(expected, found.rows)
        if found.nulls or found.repeated:
            what = f"{counted(found.repeated, 'key')} more than once" if found.repeated else "keys that are NULL"
            raise VerificationError(
                f"{self.name}: {self.work.shown} has {what} ({', '.join(self.keys)}); nothing was written",
                hint="keys must name the columns that identify a row of the source",
            )

    def _count_landed(self, files: Sequence[str], expected: int) -> KeyCounts | None:
        """The keys of a few files, without Spark; None where Spark must count them."""
        known = {column.name: column.type for column in self.columns}
        names = {key: spelled(self.look.columns, key) for key in self.keys}
        types = {column.name: column.type for column in self.look.columns}
        is_same = all(types[name] == known[key] and is_countable(known[key]) for key, name in names.items())
        if not files or expected > MOST_ROWS or not is_same or not self._is_landed_exactly:
            return None
        return count_keys(self.lake.files, files, list(names.values()))

    def _count(self, rows: DataFrame) -> KeyCounts:
        if not self.keys:
            return KeyCounts(rows.count(), 0, 0)
        columns = [F.col(quote_name(key)) for key in self.keys]
        is_null = reduce(or_, (column.isNull() for column in columns))
        groups = rows.groupBy(*columns).agg(F.count(F.lit(1)).alias(ROWS))
        found = groups.agg(
            F.coalesce(F.sum(ROWS), F.lit(0)).alias("rows"),
            F.coalesce(F.sum(F.when(is_null, F.col(ROWS))), F.lit(0)).alias("nulls"),
            F.count_if(F.col(ROWS) > 1).alias("repeated"),
        ).collect()[0]
        return KeyCounts(int(found["rows"]), int(found["nulls"]), int(found["repeated"]))

    def check_not_empty(self, rows: int) -> None:
        """A table that has rows is not emptied, unless the load allows it."""
        if rows == 0 and self.work.state.exists and not self.work.options.allow_empty:
            raise VerificationError(
                f"{self.name}: {self.work.shown} is empty; nothing was written, so that the table keeps its rows",
                hint="if that is right, set allow_empty on the load",
            )

    def screen(self) -> Screen:
        """Recognizes the suppressed keys."""
        suppressed = self.suppression.of(self.name)
        check_key_columns(suppressed, [column.name for column in self.columns])
        return Screen(suppressed)

    def keep_aside(self, rows: DataFrame, screen: Screen, number: int, *, is_all: bool) -> int:
        """Keep rows that are left out, if their tombstones can be withdrawn; gives how many are left out."""
        if not screen:
            return 0
        if screen.can_be_undone:
            left_out = screen.undoable().match(rows).toArrow()
            self.suppression.keep_aside(self.name, number, left_out, TOMBSTONE, is_all=is_all)
            fault_point("load.after_aside", str(self.name))
        return int(screen.keep(rows).count())

    def manifest(self, payload: LoadProgress) -> Manifest:
        """The progress manifest of this load."""
        progress = self.work.state.progress
        return Manifest(
            dataset=str(self.name),
            number=0,
            parent=progress.number if progress else None,
            kind=CODEC.kind,
            schema=self.schema,
            build_request_id=self.build_request_id,
            payload=CODEC.encode(payload),
        )

    def progress(self, moment: Moment, **more: object) -> LoadProgress:
        """How far the source was read by this load."""
        return self.progress_at(moment.taken_at, moment.stamp, **more)

    def progress_at(self, taken_at: str, stamp: str | None, **more: object) -> LoadProgress:
        """The same for a source that is read without a moment of its own."""
        work = self.work
        fresh = LoadProgress(
            work.strategy,
            work.source,
            work.settings,
            to_known(chosen_columns(self.look, work.options)),
            moment=taken_at,
            stamp=stamp,
            identity=self.look.identity,
            origin=work.origin,
            evidence=work.choice.evidence,
        )
        return replace(fresh, **more)  # type: ignore[arg-type]

    @property
    def layout(self) -> TableLayout:
        layout = self.work.spec.layout
        return replace(layout, table_properties=(_VECTORS, *layout.table_properties)) if self.keys else layout

    def storable(self, rows: DataFrame) -> DataFrame:
        """The rows; writing them fails if a partition column has a value that the table would read back as another one."""
        return refuse_unstorable(rows, self.layout.partition_cols)

    def restate(self, payload: LoadProgress) -> LoadResult:
        """Nothing changed: the progress moves in an empty commit, if the next plan needs to know; else there is none."""
        state = self.work.state
        known = state.payload
        is_same = known is not None and all(getattr(known, name) == getattr(payload, name) for name in _RESTATED)
        if is_same or state.progress is None:
            return LoadResult(state.version, 0)
        commit = restate(self.lake, self.name, CODEC, state, payload)
        return LoadResult(commit.version, 0)

    def evolve(self) -> Job:
        """Add columns and widen types, as a load of its own without rows; the job goes on from there."""
        changes = [change for change in self.work.column_changes if change.code in {"column_added", "type_widened"}]
        payload = self.work.state.payload
        if not changes or payload is None:
            return self
        widens = any(change.code == "type_widened" for change in changes)
        self.lake.prepare_evolution(self.name, {c.column: c.after or "" for c in changes}, widen=widens)
        begun = self.lake.begin_append(replace(self.manifest(payload), is_step=True), self.name, self._parent)
        fault_point("load.before_evolve", str(self.name))
        ddl = ", ".join(f"{quote_name(column.name)} {column.type}" for column in self.schema.columns)
        self.lake.append(self.lake.session.createDataFrame([], ddl), self.name, begun.number, evolve=True)
        fault_point("load.after_evolve", str(self.name))
        state = self.lake.read_state(self.name, CODEC)
        return replace(self, work=replace(self.work, state=state, column_changes=()))

    def begin_append(self, payload: LoadProgress) -> Manifest:
        """Begin a load that changes the table in place."""
        return self.lake.begin_append(self.manifest(payload), self.name, self._parent)

    @property
    def _parent(self) -> int | None:
        progress = self.work.state.progress
        return progress.number if progress else None

    def check_unchanged(self, now: Look) -> None:
        """SourceError when the source's columns are no longer those that were planned for."""
        chosen = [chosen_columns(look, self.work.options) for look in (self.look, now)]
        if to_known(chosen[0]) != to_known(chosen[1]):
            raise SourceError(
                f"{self.name}: the columns of {self.work.shown} changed since it was planned; nothing was written",
                hint="run again",
                retryable=True,
            )
