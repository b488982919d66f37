"""How the columns of a table differ from those of another version: a list of column changes, each with its safety. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.common_type import widens_in_place
from penstock.model.drift import ColumnChange, Safety
from penstock.model.schema import Column, Schema
from penstock.model.types import comparable_type


def diff_tables(previous: Schema, current: Schema) -> tuple[ColumnChange, ...]:
    """How the columns of a table must change; each column change says whether it can be made in place."""
    owners = {source: column for column in previous.columns for source in column.sources or {column.key}}
    takers: dict[str, list[Column]] = {}
    changes: list[ColumnChange] = []
    for column in current.columns:
        origins = {
            owners[source].key: owners[source] for source in sorted(column.sources or {column.key}) if source in owners
        }
        for key in origins:
            takers.setdefault(key, []).append(column)
        changes += _compare(list(origins.values()), column, {known.key for known in previous.columns})
    for column in previous.columns:
        found = takers.get(column.key, [])
        if not found:
            changes.append(
                to_column_change("column_dropped", column.name, Safety.REBUILD, "no longer declared", column.type)
            )
        elif len(found) > 1:
            into = " and ".join(taker.name for taker in found)
            changes.append(to_column_change("column_split", column.name, Safety.REBUILD, f"becomes {into}"))
    return tuple(changes)


def _compare(origins: Sequence[Column], column: Column, taken: set[str]) -> list[ColumnChange]:
    if not origins:
        text = f"added ({column.type}), NULL in rows loaded before"
        return [to_column_change("column_added", column.name, Safety.IN_PLACE, text, None, column.type)]
    if len(origins) > 1:
        names = " and ".join(origin.name for origin in origins)
        text = f"replaces {names}, which are separate columns of the table"
        return [to_column_change("columns_merged", column.name, Safety.REBUILD, text)]
    origin = origins[0]
    changes = []
    if origin.key != column.key:
        safety = Safety.REBUILD if column.key in taken else Safety.IN_PLACE
        text = f"renamed from {origin.name}"
        changes.append(to_column_change("column_renamed", column.name, safety, text, origin.name, column.name))
    if comparable_type(origin.type) != comparable_type(column.type):
        changes.append(_retype(origin, column))
    if column.nullable and not origin.nullable:
        changes.append(to_column_change("nullability_relaxed", column.name, Safety.NOTED, "may be NULL now"))
    return changes


def _retype(origin: Column, column: Column) -> ColumnChange:
    words = f"{origin.type} -> {column.type}"
    if widens_in_place(origin.type, column.type):
        return to_column_change(
            "type_widened", column.name, Safety.IN_PLACE, f"{words}, lossless, in place", origin.type, column.type
        )
    text = f"{words}, the least type that holds every value exactly"
    return to_column_change("type_changed", column.name, Safety.REBUILD, text, origin.type, column.type)


def to_column_change(
    code: str, column: str, safety: Safety, text: str, before: str | None = None, after: str | None = None
) -> ColumnChange:
    """A column change with a text that begins with the column's name."""
    return ColumnChange(code, column, safety, f"{column}: {text}", before, after)
