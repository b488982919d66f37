"""The search of every file of a project for values that must be gone: which are keys, and where their columns are. No JVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.kinds.catalog import Catalog
from penstock.maintenance.erasure.clear_values import ClearValues, to_needles
from penstock.maintenance.erasure.places import columns_at, scan_places
from penstock.maintenance.scan.needles import NOBODY, Survivors
from penstock.maintenance.scan.results import ScanResult
from penstock.maintenance.scan.scanner import OnProgress, scan_for_residue
from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName


@dataclass(frozen=True, slots=True)
class Wanted:
    """Values to look for, the keys that they are of, and by table all columns that have one."""

    values: ClearValues
    keys: frozenset[tuple[DatasetName, tuple[KeyColumn, ...]]]
    columns: Mapping[str, Sequence[str]]

    @property
    def tables(self) -> dict[str, DatasetName]:
        return {str(table): table for table in sorted({table for table, _ in self.keys}, key=str)}


def search_values(
    catalog: Catalog, wanted: Wanted, survivors: Survivors = NOBODY, on_progress: OnProgress | None = None
) -> ScanResult:
    """Search every file of a project; `survivors` says what the remaining rows have in common with the values."""
    tables = wanted.tables
    columns = {
        (table, column): columns_at(catalog, catalog.datasets[tables[table]], column)
        for table, names in wanted.columns.items()
        for column in names
    }
    needles = to_needles(wanted.values, _single_keys(wanted.keys), columns)
    return scan_for_residue(needles, scan_places(catalog), survivors, on_progress=on_progress)


def _single_keys(keys: Iterable[tuple[DatasetName, Sequence[KeyColumn]]]) -> dict[str, set[str]]:
    """The columns of each table that are a key by themselves. The parts of a composite key are personal values."""
    found: dict[str, set[str]] = {}
    for table, key in keys:
        if len(key) == 1:
            found.setdefault(str(table), set()).add(key[0].name)
    return found
