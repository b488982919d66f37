"""Schemas of staging tables: from what footers say to a table's columns, and from one set of columns to the next. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.model.common_type import common_type, widens_in_place
from penstock.model.contract import Contract, OnDrift
from penstock.model.drift import ColumnChange, Safety
from penstock.model.schema import Column, Footer, Schema, SeenColumn, find_column
from penstock.model.schema_diff import to_column_change
from penstock.model.types import comparable_type
from penstock.model.wording import counted


def merge_seen(seen: Iterable[SeenColumn], footers: Iterable[Footer]) -> tuple[SeenColumn, ...]:
    """What was seen so far and in these footers; the order of files affects only the order of columns."""
    merged = {column.key: column for column in seen}
    for footer in footers:
        for column in footer.columns:
            known = merged.get(column.name.lower())
            found = SeenColumn(column.name, frozenset({column.type}), column.nullable, column.is_large)
            merged[found.key] = _join(known, found) if known is not None else found
    return tuple(merged.values())


def _join(known: SeenColumn, found: SeenColumn) -> SeenColumn:
    if found.types <= known.types and known.nullable >= found.nullable and known.is_large >= found.is_large:
        return known
    return replace(
        known,
        types=known.types | found.types,
        nullable=known.nullable or found.nullable,
        is_large=known.is_large or found.is_large,
    )


def resolve_schema(seen: Iterable[SeenColumn], contract: Contract) -> Schema:
    """The columns of a table that has seen this, under this contract."""
    groups: dict[str, list[SeenColumn]] = {}
    names: dict[str, str] = {}
    for column in seen:
        name = contract.renamed(column.name)
        names.setdefault(name.lower(), name)
        groups.setdefault(name.lower(), []).append(column)
    for name, declared in contract.columns.items():
        names[name.lower()] = name
        if declared.type is not None:
            groups.setdefault(name.lower(), [])
    return Schema(tuple(_resolve(names[key], group, contract) for key, group in groups.items()))


def _resolve(name: str, group: Sequence[SeenColumn], contract: Contract) -> Column:
    declared = contract.declared(name)
    declared_type = declared.type if declared else None
    types = {type_ for column in group for type_ in column.types}
    if declared_type is None or contract.on_drift is not OnDrift.QUARANTINE:
        types |= {declared_type} if declared_type else set()
        is_large = any(column.is_large for column in group)
        type_ = common_type(types, is_large=is_large, is_far=is_large, nested=contract.nested)
    else:
        type_ = declared_type
    nullable = not group or any(column.nullable for column in group)
    return Column(name, type_, nullable, frozenset({name.lower(), *(column.key for column in group)}))


def keep_order(schema: Schema, previous: Schema) -> Schema:
    """The columns, those of the table first and in its order; where only the spelling of a type differs, the table's is kept."""
    owners = {source: column for column in previous.columns for source in column.sources or {column.key}}
    places = {column.key: place for place, column in enumerate(previous.columns)}
    found: list[tuple[int, Column]] = []
    for column in schema.columns:
        origin = next((owners[source] for source in sorted(column.sources) if source in owners), None)
        is_same = origin is not None and comparable_type(origin.type) == comparable_type(column.type)
        place = places[origin.key] if origin is not None else len(places)
        found.append((place, replace(column, type=origin.type) if origin is not None and is_same else column))
    return Schema(tuple(column for _, column in sorted(found, key=lambda pair: pair[0])))


def count_files(
    changes: Sequence[ColumnChange], schema: Schema, footers: Mapping[str, Footer]
) -> tuple[ColumnChange, ...]:
    """The column changes with the number of new files that cause each."""
    sources = {column.name: column.sources for column in schema.columns}
    result = []
    for change in changes:
        found = [find_column(footer.by_name, sources.get(change.column, frozenset())) for footer in footers.values()]
        asking = sum(column is not None and column.type != change.before for column in found)
        is_counted = asking and change.code in {"column_added", "type_widened", "type_changed"}
        result.append(replace(change, text=f"{change.text}, {counted(asking, 'file')}") if is_counted else change)
    return tuple(result)


def note_files(
    schema: Schema, changes: Sequence[ColumnChange], footers: Mapping[str, Footer]
) -> tuple[ColumnChange, ...]:
    """Differences of new files that do not change the table: columns they lack, narrower types, tighter NULLs."""
    codes = {change.column: change.code for change in changes}
    notes = (n for c in schema.columns if codes.get(c.name) != "column_added" for n in _note_column(c, footers))
    return tuple(note for note in notes if note.code != "type_narrower" or codes.get(note.column) != "type_widened")


def _note_column(column: Column, footers: Mapping[str, Footer]) -> list[ColumnChange]:
    sources = (find_column(footer.by_name, column.sources) for footer in footers.values())
    found = [known for known in sources if known is not None]
    notes = []
    lacking = len(footers) - len(found)
    if lacking:
        text = f"missing in {counted(lacking, 'file')}, NULL there"
        notes.append(to_column_change("column_missing", column.name, Safety.NOTED, text, column.type))
    types = sorted({known.type for known in found if _is_narrower(known.type, column.type)})
    if types:
        count = sum(known.type in types for known in found)
        text = f"{', '.join(types)} in {counted(count, 'file')}, kept as {column.type}"
        notes.append(to_column_change("type_narrower", column.name, Safety.NOTED, text, column.type, types[0]))
    if found and not lacking and column.nullable and not any(known.nullable for known in found):
        text = f"required in {counted(len(found), 'file')}"
        notes.append(to_column_change("nullability_tightened", column.name, Safety.NOTED, text))
    return notes


def _is_narrower(type_: str, table: str) -> bool:
    return type_ != table and "<" not in type_ and widens_in_place(type_, table)


def find_renames(changes: Sequence[ColumnChange], lacking: Sequence[ColumnChange]) -> list[tuple[str, str]]:
    """Pairs of a column that new files lack and one that they add, of a type that no other such column has."""
    added = [change for change in changes if change.code == "column_added"]
    pairs = []
    for old in lacking:
        new = [change.column for change in added if change.after == old.before]
        rivals = [other for other in lacking if other.before == old.before]
        if len(new) == len(rivals) == 1:
            pairs.append((old.column, new[0]))
    return pairs
