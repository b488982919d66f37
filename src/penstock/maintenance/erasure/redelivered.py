"""Persons in source files that were delivered after their erasure: found by hash, then erased and proven like any other.

A load keeps them out of every table, but the files have them. What a search finds goes into the vault first, so that the next
command can go on after a kill, or when the residue scan finds a value elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.maintenance.erasure.tombstones import KEYS, Tombstones
from penstock.maintenance.sources.erasing import count_sources
from penstock.maintenance.sources.redelivered import Redelivered, find_redelivered
from penstock.maintenance.sources.searched import Unsearched
from penstock.model.erasing import FileErased
from penstock.model.tombstones import Tombstone, TombstoneState
from penstock.tombstones.vault import Vault
from penstock.transforms.key_match import TEXT


@dataclass(frozen=True, slots=True)
class Redelivery:
    """Looks for keys of physical tombstones in source files of a project."""

    tombstones: Tombstones

    def find(self, due: Sequence[Unsearched]) -> list[Redelivered]:
        """The keys that files of these tables have again."""
        return [found for table in due for found in self._find(table) if found.texts]

    def _find(self, table: Unsearched) -> Iterator[Redelivered]:
        given = self.tombstones
        suppression = replace(given.suppression, tombstones={table.name: table.tombstones})
        for keys in suppression.of(table.name):
            yield find_redelivered(given.lake, given.catalog, table.dataset, keys, table.files.keys())

    def count(self, due: Sequence[Unsearched]) -> list[FileErased]:
        """How many files, records and bytes would be rewritten."""
        lake, catalog = self.tombstones.lake, self.tombstones.catalog
        return [
            counted
            for found in self.find(due)
            for counted in count_sources(lake, catalog, found.dataset, found.keys.key, list(found.texts))
        ]

    def keep(self, found: Sequence[Redelivered]) -> None:
        """Put keys in the vault, under the requests of their tombstones; the texts last, which make them count."""
        vault = self.tombstones.vault
        for batch, rows in _texts_by_batch(found).items():
            known = vault.get_table(batch, KEYS).to_pylist() if KEYS in vault.names(batch) else []
            kept = {(row["id"], row["table"], row["text"]) for row in known}
            if rows <= kept:
                continue
            for each in found:
                _keep_values(vault, batch, each, {id_ for id_, _, _ in rows - kept})
            columns = (pa.array(each, pa.string()) for each in zip(*sorted(rows | kept), strict=True))
            vault.put_table(batch, KEYS, pa.table(dict(zip(("id", "table", "text"), columns, strict=True))))

    def unfinished(self) -> tuple[Tombstone, ...]:
        """The physical tombstones whose keys the vault has: they were found in files, and must be proven to be gone."""
        vault, known = self.tombstones.vault, self.tombstones.store.read()
        found: list[Tombstone] = []
        for batch in find_unfinished(vault, known):
            ids = set(vault.get_table(batch, KEYS)["id"].to_pylist()) if KEYS in vault.names(batch) else set[str]()
            own = [each for each in known if each.id in ids and each.state is TombstoneState.PHYSICAL]
            own = [each for each in own if each.table in self.tombstones.catalog.datasets]
            if not own:  # killed before they counted, released since, or no longer a dataset
                vault.destroy(batch)
            found += own
        return tuple(found)


def find_unfinished(vault: Vault, known: Sequence[Tombstone]) -> list[str]:
    """The requests that are over, and of which the vault has something again. No JVM."""
    is_over: dict[str, bool] = {}
    for each in known:
        is_over[each.batch] = is_over.get(each.batch, True) and not each.state.can_be_undone
    return [batch for batch in vault.batches() if is_over.get(batch, False)]


def _texts_by_batch(found: Sequence[Redelivered]) -> dict[str, set[tuple[str, str, str]]]:
    """The id of a tombstone, its table and the text of its key, by request."""
    texts: dict[str, set[tuple[str, str, str]]] = {}
    for each in found:
        by_id = {tombstone.id: tombstone for tombstone in each.keys.tombstones}
        for text, ids in each.texts.items():
            for one in (by_id[id_] for id_ in ids):
                texts.setdefault(one.batch, set()).add((one.id, str(one.table), text))
    return texts


def _keep_values(vault: Vault, batch: str, found: Redelivered, ids: set[str]) -> None:
    """Keep the keys of these tombstones as files have them, for the residue scan."""
    texts = pa.array([text for text, of in found.texts.items() if of & ids], pa.string())
    for table in found.values:
        rows = table.filter(pc.is_in(table.column(TEXT), texts)).drop_columns([TEXT])
        if rows.num_rows:
            number = len(vault.names(batch))
            vault.put_table(batch, f"{found.dataset.name}.{number:020d}.values", rows)
