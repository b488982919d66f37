"""The columns of a load: from what a source has to what its table gets, by the rules of drift. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from penstock.databases.contract import Look, SourceColumn
from penstock.kinds.table_load.progress import KnownColumn
from penstock.model.changes import END_AT, INTERNAL_COLUMNS, RESERVED, START_AT
from penstock.model.common_type import common_type, widens_in_place
from penstock.model.drift import ColumnChange, Safety
from penstock.model.loads import DELETED_AT, Deletes, LoadOptions, SqliteSource, Strategy
from penstock.model.names import DatasetName
from penstock.model.nearest import did_you_mean
from penstock.model.plan import Problem
from penstock.model.schema import Column, Schema
from penstock.model.schema_diff import diff_tables, to_column_change
from penstock.model.spec import TableLayout
from penstock.model.types import comparable_type

OWN = (DELETED_AT, START_AT, END_AT)
"""Columns that a load adds to those of its source."""
_OWN_KEYS = frozenset(name.lower() for name in OWN)


@dataclass(frozen=True, slots=True)
class Resolved:
    """The table's columns after a load, and how they change."""

    schema: Schema
    changes: tuple[ColumnChange, ...] = ()
    problem: Problem | None = None

    @property
    def needs_reload(self) -> bool:
        return any(change.safety is Safety.REBUILD for change in self.changes)

    @property
    def evolves(self) -> bool:
        return any(change.safety is Safety.IN_PLACE for change in self.changes)


def chosen_columns(look: Look, options: LoadOptions) -> tuple[SourceColumn, ...]:
    """The columns that are read, in the order and spelling of the source; those that it lacks are left out."""
    if options.columns is None:
        return look.columns
    wanted = {name.lower() for name in options.columns}
    return tuple(column for column in look.columns if column.name.lower() in wanted)


def spelled(columns: Iterable[SourceColumn | KnownColumn | Column], name: str) -> str:
    """A column's name as the source or the table spells it; an exact match first."""
    known = [column.name for column in columns]
    return name if name in known else next((found for found in known if found.lower() == name.lower()), name)


def to_known(columns: Iterable[SourceColumn]) -> tuple[KnownColumn, ...]:
    """The source's columns, as the progress keeps them."""
    return tuple(KnownColumn(column.name, column.native, column.type or "") for column in columns)


def own_columns(options: LoadOptions) -> tuple[Column, ...]:
    """The columns that a load with these options adds."""
    if options.scd_type == 2:
        return Column(START_AT, "timestamp"), Column(END_AT, "timestamp")
    return (Column(DELETED_AT, "timestamp"),) if options.deletes is Deletes.SOFT else ()


def of_source(schema: Schema) -> Schema:
    """The columns that come from the source."""
    return Schema(tuple(column for column in schema.columns if column.key not in _OWN_KEYS))


def resolve(
    look: Look,
    options: LoadOptions,
    strategy: Strategy,
    previous: Schema | None,
    shown: str,
    *,
    is_reload: bool = False,
) -> Resolved:
    """The columns of the table after this load. A full refresh and a reload take the source's; others keep what the table has."""
    found = chosen_columns(look, options)
    source = Schema(tuple(Column(column.name, column.type or "string", column.nullable) for column in found))
    own = own_columns(options)
    problem = _find_problem(look, found, options, shown)
    is_whole = is_reload or strategy is Strategy.FULL_REFRESH or previous is None
    before = of_source(previous) if previous is not None else None
    if is_whole or before is None:
        changes = tuple(map(_as_in_source, diff_tables(before, source))) if before is not None else ()
        return Resolved(Schema((*source.columns, *own)), changes, problem)
    kept, notes = _keep(before, source)
    stored = [column for column in (previous.columns if previous else ()) if column.key in _OWN_KEYS]
    known = {column.key for column in stored}
    added = [column for column in own if column.key not in known]
    changes = (*diff_tables(before, kept), *notes, *(_added(column) for column in added))
    return Resolved(Schema((*kept.columns, *stored, *added)), changes, problem)


def _as_in_source(change: ColumnChange) -> ColumnChange:
    """A table that is written as a whole takes the type of the source, which need not hold the values from before."""
    if change.code != "type_changed":
        return change
    return replace(change, text=f"{change.column}: {change.before} -> {change.after}, as in the source")


def _added(column: Column) -> ColumnChange:
    text = f"added ({column.type})"
    return to_column_change("column_added", column.name, Safety.IN_PLACE, text, None, column.type)


def _keep(before: Schema, source: Schema) -> tuple[Schema, tuple[ColumnChange, ...]]:
    """The table's columns first and in its order, each with a type that holds both; then the new ones."""
    found = {column.key: column for column in source.columns}
    columns, notes = [], []
    for column in before.columns:
        new = found.pop(column.key, None)
        if new is None:
            text = "missing in the source, NULL in new rows"
            notes.append(to_column_change("column_missing", column.name, Safety.NOTED, text, column.type))
            columns.append(replace(column, nullable=True))
            continue
        type_ = _join_types(column.type, new.type)
        if type_ == column.type and comparable_type(new.type) != comparable_type(column.type):
            text = f"{new.type} in the source, kept as {column.type}"
            notes.append(to_column_change("type_narrower", column.name, Safety.NOTED, text, column.type, new.type))
        columns.append(replace(column, type=type_, nullable=column.nullable or new.nullable))
    return Schema((*columns, *found.values())), tuple(notes)


def _join_types(table: str, source: str) -> str:
    if comparable_type(table) == comparable_type(source) or widens_in_place(source, table):
        return table
    return source if widens_in_place(table, source) else common_type({table, source})


def find_layout_problem(schema: Schema, layout: TableLayout, name: DatasetName) -> Problem | None:
    """A column that the table shall be partitioned or clustered by, and does not have."""
    names = [column.name for column in schema.columns]
    known = {each.lower() for each in names}
    for what, wanted in (("partition_cols", layout.partition_cols), ("cluster_by", layout.cluster_by)):
        for column in wanted:
            if column.lower() not in known:
                return Problem(
                    "source_column_missing",
                    f"{name} has no column {column}, which {what} names{did_you_mean(column, names)}",
                    hint=f"correct {what}, or columns of the load",
                )
    return None


def _find_cursor_problem(found: Sequence[SourceColumn], options: LoadOptions, shown: str) -> Problem | None:
    """A number that is not a whole one: databases cannot bound it, and there is no time before it to go back to."""
    if options.cursor is None or options.lookback == 0 or isinstance(options.source, SqliteSource):
        return None
    name = spelled(found, options.cursor)
    cursor = next((column for column in found if column.name == name), None)
    is_number = cursor is not None and (cursor.type or "").startswith(("decimal", "float", "double"))
    if cursor is None or not (is_number or cursor.native.startswith("numeric")):
        return None
    return Problem(
        "cursor_unbounded",
        f"the cursor {name} of {shown} ({cursor.native}) is neither a time nor a whole number, and rows may be committed late",
        hint='if values are only ever committed in order, set lookback="0 seconds"; otherwise use strategy snapshot',
    )


def _is_taken(name: str) -> bool:
    return name in _OWN_KEYS or name in INTERNAL_COLUMNS or name.startswith(RESERVED)


def _find_problem(look: Look, found: Sequence[SourceColumn], options: LoadOptions, shown: str) -> Problem | None:
    names = [column.name for column in look.columns]
    known = {name.lower() for name in names}
    wanted = (*(options.columns or ()), *options.keys, *([options.cursor] if options.cursor else ()))
    for name in wanted:
        if name.lower() not in known:
            return Problem(
                "source_column_missing",
                f"{shown} has no column {name}{did_you_mean(name, names)}",
                hint="correct columns, keys or cursor of the load, or the source",
            )
    lowered = [column.name.lower() for column in found]
    if repeated := {name for name in lowered if lowered.count(name) > 1}:
        text = f"{shown} has columns that differ only by case: {min(repeated)}"
        return Problem("source_column_unusable", text, hint="name the columns to load with columns=, or load a view")
    if taken := next((column.name for column in found if _is_taken(column.name.lower())), None):
        text = f"{shown} has a column {taken}, which is a name of Penstock's own"
        return Problem("source_column_unusable", text, hint="rename it in a view and load that")
    bad = next((column for column in found if column.type is None), None)
    if bad is not None:
        return Problem(
            "source_column_unusable",
            f"column {bad.name} of {shown} ({bad.native}) cannot be loaded: {bad.problem}",
            hint="cast it in a view and load that, or leave it out with columns=",
        )
    return _find_cursor_problem(found, options, shown)
