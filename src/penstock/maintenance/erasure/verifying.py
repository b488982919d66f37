"""Proving again, later, that keys are gone: by their values in every file, or, without values, by their hashes in tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unicodedata import normalize

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.kinds.catalog import Catalog
from penstock.lake.tables import Lake
from penstock.maintenance.erasure.clear_values import ClearValues
from penstock.maintenance.erasure.hiding import TableToHide, count_stored_rows
from penstock.maintenance.erasure.keys import type_keys
from penstock.maintenance.erasure.places import STORAGE
from penstock.maintenance.erasure.searching import Wanted, search_values
from penstock.maintenance.erasure.survivors import find_survivors
from penstock.maintenance.erasure.tombstones import Tombstones, requests_of
from penstock.maintenance.scan.results import Hit, ScanResult
from penstock.maintenance.scan.scanner import OnProgress
from penstock.model.erasure import ErasableTable
from penstock.model.keys import NormalForm
from penstock.model.names import DatasetName
from penstock.model.tombstones import Tombstone
from penstock.model.wording import counted
from penstock.transforms.key_hashes import key_text

_TEXT = "__penstock_text"


@dataclass(frozen=True, slots=True)
class HashCheck:
    """How many rows of a table have a key with a tombstone, by the hash of its declared columns."""

    table: DatasetName
    keys: int
    rows: int

    def to_json(self) -> dict[str, Any]:
        return {"table": str(self.table), "keys": self.keys, "rows": self.rows}


def verify_values(
    catalog: Catalog, targets: Sequence[ErasableTable], keys: pa.Table, on_progress: OnProgress | None = None
) -> ScanResult:
    """Search every file of the project for keys of one column that are given again, in all their spellings. No JVM."""
    given = keys.column(0).drop_null().to_pylist()
    spelled = {target: _spell(given, target.key[0].normal_form) for target in targets}
    return search_values(catalog, _to_wanted(spelled), on_progress=on_progress)


def _spell(given: Iterable[Any], form: NormalForm) -> pa.Table:
    """The keys as they are given, and as files are likely to have them: a normal form makes several spellings one key."""
    found = dict[Any, None]()
    for value in given:
        found[value] = None
        if isinstance(value, str):
            found |= dict.fromkeys(_SPELLINGS[form](value))
    return pa.table({"key": pa.array(list(found))})


_SPELLINGS: dict[NormalForm, Callable[[str], Iterable[str]]] = {
    NormalForm.EXACT: lambda _: (),
    NormalForm.LOWER: lambda text: (text.lower(), text.upper()),
    NormalForm.TRIM: lambda text: (text.strip(" "),),
    NormalForm.NFC: lambda text: (normalize("NFC", text),),
}


def verify_composite(
    catalog: Catalog,
    lake: Lake,
    targets: Sequence[ErasableTable],
    keys: pa.Table,
    on_progress: OnProgress | None = None,
) -> ScanResult:
    """The same for composite keys. A part that another person's row has too is not searched; rows with all parts are a hit."""
    known = {target: _to_keys(lake, target, keys) for target in targets if lake.state(target.table).exists}
    wanted = _to_wanted({target: known[target].values if target in known else keys for target in targets})
    by_table = {target.table: each for target, each in known.items()}
    survivors = find_survivors(
        lake, wanted.values, by_table, wanted.columns, remaining_of=lambda table: by_table[table].others()
    )
    result = search_values(catalog, wanted, survivors, on_progress)
    rows = {table: each.count_rows() for table, each in by_table.items()}
    found = [Hit(STORAGE, table.path, counted(n, "row"), 0, "composite key") for table, n in rows.items() if n]
    return replace(result, hits=(*found, *result.hits))


def _to_wanted(keys: Mapping[ErasableTable, pa.Table]) -> Wanted:
    values = {
        (str(target.table), column.name.lower()): frozenset(given.drop_null().to_pylist())
        for target, table in keys.items()
        for column, given in zip(target.key, table.columns, strict=True)
    }
    columns = {str(target.table): [column.name.lower() for column in target.key] for target in keys}
    return Wanted(ClearValues(values, {}), frozenset((target.table, target.key) for target in keys), columns)


@dataclass(frozen=True, slots=True, eq=False)
class _Keys:
    """Keys as one table has them, and its rows."""

    rows: DataFrame
    texts: DataFrame
    values: pa.Table

    def others(self) -> DataFrame:
        """The rows that have none of the keys."""
        return self.rows.join(self.texts, _TEXT, "left_anti").drop(_TEXT)

    def count_rows(self) -> int:
        """How many rows have one of the keys."""
        return self.rows.select(_TEXT).join(self.texts, _TEXT, "left_semi").count()


def _to_keys(lake: Lake, target: ErasableTable, keys: pa.Table) -> _Keys:
    rows = lake.read(target.table)
    types = {field.name.lower(): field.dataType for field in rows.schema.fields}
    typed, columns = type_keys(lake.session, keys, target.key, types)
    texts = typed.select(key_text(typed, columns).alias(_TEXT))
    return _Keys(rows.withColumn(_TEXT, key_text(rows, target.key)), F.broadcast(texts), typed.toArrow())


def verify_hashes(tombstones: Tombstones, chosen: Sequence[Tombstone]) -> tuple[HashCheck, ...]:
    """Compare the declared columns of every row of the tables with the hashes of tombstones."""
    return tuple(
        _check(tombstones, found)
        for table in dict.fromkeys(each.table for each in chosen)
        for request in requests_of([each for each in chosen if each.table == table and each.release is None])
        for found in tombstones.tables_of(table, request)
    )


def _check(tombstones: Tombstones, table: TableToHide) -> HashCheck:
    keys = len(table.keys.tombstones)
    if not tombstones.lake.state(table.name).exists:
        return HashCheck(table.name, keys, 0)
    return HashCheck(table.name, keys, count_stored_rows(tombstones.lake.read(table.name), table))
