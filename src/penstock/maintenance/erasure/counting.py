"""What an erasure would do: files, rows and bytes of each table and source. Writes nothing, and fails where it cannot search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.lake.log_facts import read_facts
from penstock.lake.tables import Lake
from penstock.maintenance.erasure.clear_values import read_clear_values
from penstock.maintenance.erasure.erasing import delta_tables_of
from penstock.maintenance.erasure.tombstones import Tombstones
from penstock.maintenance.sources.erasing import count_sources
from penstock.maintenance.tables.physical import check_supported
from penstock.maintenance.tables.removal import find_stored
from penstock.model.erasing import FileErased
from penstock.model.names import DatasetName
from penstock.model.tombstones import Tombstone


@dataclass(frozen=True, slots=True)
class TableCount:
    """What would be done to one Delta table."""

    table: DatasetName
    rows: int
    """Rows that tombstones hide."""
    files_to_rewrite: int
    bytes_to_rewrite: int
    files_to_remove: int
    bytes_to_remove: int
    log_files: int

    def to_json(self) -> dict[str, Any]:
        return {
            "table": str(self.table),
            "rows": self.rows,
            "files_to_rewrite": self.files_to_rewrite,
            "bytes_to_rewrite": self.bytes_to_rewrite,
            "files_to_remove": self.files_to_remove,
            "bytes_to_remove": self.bytes_to_remove,
            "log_files": self.log_files,
        }


@dataclass(frozen=True, slots=True)
class DryRun:
    """What an erasure would do."""

    tombstones: tuple[Tombstone, ...] = ()
    tables: tuple[TableCount, ...] = ()
    sources: tuple[FileErased, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "tombstones": [each.id for each in self.tombstones],
            "tables": [each.to_json() for each in self.tables],
            "sources": [
                {
                    "place": s.place,
                    "searched": s.searched,
                    "files": s.rewritten,
                    "records": s.removed,
                    "bytes": s.bytes_before,
                }
                for s in self.sources
            ],
        }


def count_erasure(tombstones: Tombstones, chosen: Sequence[Tombstone], tables: Sequence[DatasetName]) -> DryRun:
    """Count what an erasure of these tombstones would rewrite and remove."""
    lake, catalog = tombstones.lake, tombstones.catalog
    counted: list[TableCount] = []
    sources: list[FileErased] = []
    values = read_clear_values(catalog, tombstones.vault, chosen)
    for table in tables:
        rows = sum(each.rows for each in chosen if each.table == table)
        existing = [name for name in delta_tables_of(catalog, table) if lake.state(name).exists]
        counted += [count_table(lake, name, rows if name == table else 0) for name in existing]
        for key in dict.fromkeys(each.key for each in chosen if each.table == table):
            sources += count_sources(lake, catalog, catalog.datasets[table], key, values.texts_of(table, key))
    return DryRun(tuple(chosen), tuple(counted), tuple(sources))


def count_table(lake: Lake, name: DatasetName, rows: int) -> TableCount:
    """What would be done to one table with this many hidden rows; an error when it must not be touched."""
    facts = read_facts(lake.files, name.path)
    check_supported(lake, name, facts.state)
    stored = find_stored(lake.files, name.path, facts)
    hidden = facts.state.hidden_in
    return TableCount(
        name,
        rows,
        len(hidden),
        sum(file.size for file in hidden),
        len(stored.removed),
        sum(file.size for file in stored.removed),
        len(facts.commits) + len(facts.checkpoints),
    )
