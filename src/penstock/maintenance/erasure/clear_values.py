"""The clear values of a request: put in the vault when rows are hidden, used to prove that they are gone, then destroyed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.kinds.catalog import Catalog
from penstock.maintenance.erasure.tombstones import KEYS, name_of
from penstock.maintenance.scan.needles import Column, Needle, Role
from penstock.model.dataset import Form, Place
from penstock.model.erasure import ErasureSettings
from penstock.model.keys import KeyColumn, NormalForm, split_key_text
from penstock.model.names import DatasetName
from penstock.model.tombstones import Tombstone
from penstock.tombstones.vault import Vault
from penstock.transforms.suppress import TOMBSTONE

_ENTRY = re.compile(r"(?P<table>.+)\.\d{20}\.(rows|all|misfits|all-misfits|values)")


@dataclass(frozen=True, slots=True)
class ClearValues:
    """What must be gone: values of keys and personal columns, by table and column."""

    found: Mapping[tuple[str, str], frozenset[Any]] = field(repr=False)
    """By table and column in lower case."""
    texts: Mapping[tuple[str, tuple[KeyColumn, ...]], tuple[str, ...]] = field(repr=False)
    """The canonical texts of keys, by table and columns: the order 42 is not the customer 42."""

    def texts_of(self, table: DatasetName, key: tuple[KeyColumn, ...]) -> tuple[str, ...]:
        return self.texts.get((str(table), key), ())

    def values_of(self, table: str, column: str) -> frozenset[Any]:
        return self.found.get((table, column.lower()), frozenset())

    @property
    def all_texts(self) -> tuple[str, ...]:
        """Values that are text, for the redaction of the event log; short ones would hit other words."""
        return tuple(
            sorted({v for values in self.found.values() for v in values if isinstance(v, str) and len(v) >= 8})
        )


def read_clear_values(catalog: Catalog, vault: Vault, tombstones: Sequence[Tombstone]) -> ClearValues:
    """Everything that the vault has about these tombstones."""
    found: dict[tuple[str, str], set[Any]] = {}
    texts: dict[tuple[str, tuple[KeyColumn, ...]], set[str]] = {}
    by_id = {each.id: each for each in tombstones}
    groups = _group_by_columns(catalog.workspace.project.erasure, tombstones)
    stored = _find_places(catalog, tombstones)
    for batch in dict.fromkeys(each.batch for each in tombstones):
        for name in vault.names(batch):
            if name == KEYS:
                for row in vault.get_table(batch, name).to_pylist():
                    if (tombstone := by_id.get(row["id"])) is not None:
                        texts.setdefault((row["table"], tombstone.key), set()).add(row["text"])
            elif (match := _ENTRY.fullmatch(name)) and match["table"] in stored:
                table, place = stored[match["table"]]
                rows = vault.get_table(batch, name)
                for columns, own in groups.get(table, {}).items():
                    for column, value in _values_in(_rows_of(rows, own), place, columns):
                        found.setdefault((table, column), set()).add(value)
    seen = {(where, str(value)) for where, values in found.items() for value in values}
    for where, value in _asked_values(texts):  # a key without a row may still be in a file
        if (where, value) not in seen:
            found.setdefault(where, set()).add(value)
    return ClearValues(
        {where: frozenset(values) for where, values in found.items()},
        {where: tuple(sorted(values)) for where, values in texts.items()},
    )


def _asked_values(
    texts: Mapping[tuple[str, tuple[KeyColumn, ...]], Iterable[str]],
) -> Iterator[tuple[tuple[str, str], str]]:
    """The values of keys as they were asked for, in their normal form, with their table and column."""
    for (table, key), own in texts.items():
        for text in own:
            for column, value in zip(key, split_key_text(text), strict=True):
                if value is not None and is_searchable(key, column):
                    yield (table, column.name.lower()), value


def is_searchable(key: Sequence[KeyColumn], column: KeyColumn) -> bool:
    """Whether a column of a key that no row has can be looked for by its value alone.

    A part of a composite key that has a normal form cannot: it can be what somebody else has in another spelling.
    """
    return len(key) == 1 or column.normal_form is NormalForm.EXACT


def _group_by_columns(
    settings: ErasureSettings, tombstones: Iterable[Tombstone]
) -> dict[str, dict[tuple[str, ...], list[str]]]:
    """By table, the ids of tombstones with the same columns: other columns of a person's row are keys of somebody else only."""
    found: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for each in tombstones:
        found.setdefault(str(each.table), {}).setdefault(columns_of(settings, each), []).append(each.id)
    return found


def _rows_of(rows: pa.Table, ids: Sequence[str]) -> pa.Table:
    """The rows of some tombstones; all where the vault has only keys, as source files had them."""
    if TOMBSTONE not in rows.column_names:
        return rows
    return rows.filter(pc.is_in(rows.column(TOMBSTONE), pa.array(ids, pa.string())))


def _find_places(catalog: Catalog, tombstones: Iterable[Tombstone]) -> dict[str, tuple[str, Place]]:
    """The Delta tables that rows of these tombstones are in, each with its dataset: its own table, and its quarantine."""
    found = {}
    tables = {each.table for each in tombstones}
    for dataset in (catalog.datasets[table] for table in tables if table in catalog.datasets):
        for place in catalog.kind_of(dataset.kind).places(dataset, catalog.state(dataset)):
            if place.form is Form.DELTA and place.is_ours:
                found[str(name_of(place.uri))] = (str(dataset.name), place)
    return found


def columns_of(settings: ErasureSettings, tombstone: Tombstone) -> tuple[str, ...]:
    """The key and the personal columns of a tombstone's table, in lower case."""
    declared = settings.find(tombstone)
    personal = declared.personal if declared else ()
    return tuple(dict.fromkeys(name.lower() for name in (*(column.name for column in tombstone.key), *personal)))


def columns_by_table(settings: ErasureSettings, tombstones: Iterable[Tombstone]) -> dict[str, tuple[str, ...]]:
    """The keys and personal columns of all tombstones of each table: they need not have the same key."""
    found: dict[str, dict[str, None]] = {}
    for each in {(t.table, t.key, t.subject): t for t in tombstones}.values():
        found.setdefault(str(each.table), {}).update(dict.fromkeys(columns_of(settings, each)))
    return {table: tuple(names) for table, names in found.items()}


def _values_in(rows: pa.Table, place: Place, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The values of these columns; in rows kept as JSON text, of the fields with one of their names."""
    named = {name: column for column in columns for name in (*place.names_of(column), column)}
    for name in rows.column_names:
        if name == place.json_column:
            for text in rows.column(name).to_pylist():
                yield from _fields_in(text, named)
        elif name.lower() in named:
            for value in rows.column(name).unique().to_pylist():
                if value is not None:
                    yield named[name.lower()], value


def _fields_in(text: str | None, named: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    try:
        row = json.loads(text or "{}")
    except ValueError:
        return
    for name, value in row.items() if isinstance(row, dict) else ():
        if name.lower() in named and value is not None and not isinstance(value, dict | list):
            yield named[name.lower()], value


def to_needles(
    values: ClearValues, keys: Mapping[str, Iterable[str]], columns: Mapping[tuple[str, str], Sequence[Column]]
) -> list[Needle]:
    """What the residue scan looks for: each value once, with everywhere its columns are.

    `keys` has the columns of each table that are a key by themselves. All others are personal: a part of a composite key says who
    somebody is only together with the other parts, so that others may have it too.
    """
    wanted: dict[tuple[str, str, bool], tuple[Any, dict[Column, None]]] = {}
    for (table, column), found in values.found.items():
        is_key = column in {name.lower() for name in keys.get(table, ())}
        for value in found:
            # A number that is a key can be anybody's age: as such it is another needle.
            _, places = wanted.setdefault((type(value).__name__, str(value), is_key), (value, {}))
            places.update(dict.fromkeys(columns.get((table, column), ())))
    return [
        Needle(str(value), (value,), tuple(places), Role.KEY if is_key else Role.PERSONAL)
        for (_, _, is_key), (value, places) in wanted.items()
    ]
