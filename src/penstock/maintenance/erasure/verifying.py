"""Proving again, later, that keys are gone: by their values in every file, or, without values, by their hashes in tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.kinds.catalog import Catalog
from penstock.maintenance.erasure.clear_values import ClearValues, to_needles
from penstock.maintenance.erasure.hiding import TableToHide, find_stored_keys
from penstock.maintenance.erasure.places import columns_at, scan_places
from penstock.maintenance.erasure.tombstones import Tombstones, requests_of
from penstock.maintenance.scan.results import ScanResult
from penstock.maintenance.scan.scanner import OnProgress, scan_for_residue
from penstock.model.erasure import ErasableTable
from penstock.model.names import DatasetName
from penstock.model.tombstones import Tombstone


@dataclass(frozen=True, slots=True)
class HashCheck:
    """How many rows of a table have a key with a tombstone, by the hash of its declared columns."""

    table: DatasetName
    keys: int
    rows: int

    def to_json(self) -> dict[str, Any]:
        return {"table": str(self.table), "keys": self.keys, "rows": self.rows}


def verify_values(
    catalog: Catalog, targets: Sequence[ErasableTable], keys: pa.Table, on_progress: OnProgress | None
) -> ScanResult:
    """Search every file of the project for keys that are given again. No JVM."""
    found: dict[tuple[str, str], frozenset[Any]] = {}
    columns, key_columns = {}, {}
    for target in targets:
        dataset = catalog.datasets[target.table]
        key_columns[str(target.table)] = [column.name for column in target.key]
        for column, values in zip(target.key, keys.columns, strict=True):
            where = (str(target.table), column.name.lower())
            found[where] = frozenset(value for value in values.to_pylist() if value is not None)
            columns[where] = columns_at(catalog, dataset, column.name)
    needles = to_needles(ClearValues(found, {}), key_columns, columns)
    return scan_for_residue(needles, scan_places(catalog), on_progress=on_progress)


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
    return HashCheck(table.name, keys, find_stored_keys(tombstones.lake.read(table.name), table).num_rows)
