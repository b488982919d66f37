"""Withdrawing tombstones before the physical step: the rows come back unchanged, and what was kept out meanwhile too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from penstock.errors import UsageError
from penstock.faults import fault_point
from penstock.kinds.undo import RowsUndo, Undo
from penstock.lake.tables import Lake
from penstock.maintenance.erasure.hiding import TableToHide, find_stored_keys
from penstock.maintenance.erasure.tombstones import Tombstones, is_erasing, requests_of
from penstock.model.dataset import Place
from penstock.model.names import DatasetName
from penstock.model.tombstones import SuppressedKeys, Tombstone, TombstoneState
from penstock.tombstones.suppression import KeptAside, Suppression, find_committed, find_kept_aside
from penstock.tombstones.vault import Vault
from penstock.transforms.arrow import to_frame
from penstock.transforms.suppress import TOMBSTONE, Screen


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Withdraws tombstones of one project."""

    tombstones: Tombstones

    def withdraw(self, chosen: Sequence[Tombstone]) -> tuple[DatasetName, ...]:
        """Bring the rows of these tombstones back; gives the tables that must be computed again."""
        check_withdrawable(chosen, self.tombstones.vault)
        recompute = dict[DatasetName, None]()
        for group in requests_of(chosen):
            for table in dict.fromkeys(each.table for each in group):
                own = [each for each in group if each.table == table]
                if not self._put_back(table, own):
                    recompute[table] = None
                self.tombstones.store.move(own, TombstoneState.WITHDRAWN)
        self._tidy({each.batch for each in chosen})
        return tuple(recompute)

    def _put_back(self, table: DatasetName, group: Sequence[Tombstone]) -> bool:
        """Bring rows back into all tables of a dataset; False when the dataset has to be computed again."""
        given = self.tombstones
        dataset = given.catalog.datasets[table]
        kind = given.catalog.kind_of(dataset.kind)
        after = _without(given.suppression, table, {each.id for each in group})
        undo = kind.undo(given.lake, dataset, given.run_of(dataset, after))
        if undo is None:
            return False
        for found in given.tables_of(table, group):
            way = undo if found.name == table else RowsUndo(given.lake, found.name, given.build_request_id)
            self._put_back_rows(found, group, way, after.of(table))
        return True

    def _put_back_rows(
        self, table: TableToHide, group: Sequence[Tombstone], undo: Undo, still_hidden: Sequence[SuppressedKeys]
    ) -> None:
        name = table.name
        entries = self._find_entries(name, group)
        kept = [rows for rows in entries.values() if rows.num_rows]
        if not kept or self._is_done(name, group):
            return
        if not isinstance(undo, RowsUndo):
            undo.put_back(pa.concat_tables(kept, promote_options="permissive"), still_hidden, lambda _: None)
            return
        others = [replace(table, keys=keys) for keys in still_hidden]
        hidden = {number: find_hidden(self.tombstones.lake, rows, others) for number, rows in entries.items()}
        rows = pa.concat_tables(
            [_leave_out(rows, hidden[number], table.place) for number, rows in entries.items()],
            promote_options="permissive",
        )

        def begun(number: int) -> None:
            self._keep_for_others(name, number, hidden)
            self._note(name, group, number)

        undo.put_back(rows, still_hidden if table.place.json_column is None else (), begun)
        fault_point("undo.after_commit", str(name))

    def _find_entries(self, name: DatasetName, group: Sequence[Tombstone]) -> dict[int, pa.Table]:
        """What is kept aside of these tombstones, by the number of the commit that left it out."""
        vault, ids = self.tombstones.vault, pa.array([each.id for each in group], pa.string())
        found: dict[int, pa.Table] = {}
        for entry in self._kept_aside(name, group[0]):
            rows = vault.get_table(group[0].batch, entry.name)
            found[entry.number] = rows.filter(pc.is_in(rows.column(TOMBSTONE), ids))
        return found

    def _kept_aside(self, name: DatasetName, tombstone: Tombstone) -> list[KeptAside]:
        files = self.tombstones.lake.files
        loads = find_committed(files, tombstone.table) if name != tombstone.table else None
        return find_kept_aside(self.tombstones.vault, tombstone.batch, name, find_committed(files, name), loads)

    def _keep_for_others(self, name: DatasetName, number: int, hidden: Mapping[int, pa.Table | None]) -> None:
        """Keep rows aside that other tombstones hide, too, unless these have them: they came after the rows were hidden."""
        given = self.tombstones
        by_id = {each.id: each for each in given.store.read()}
        kept = []
        for entry, rows in hidden.items():
            for one in set(rows.column(TOMBSTONE).to_pylist()) if rows is not None else ():
                known = {each.number for each in self._kept_aside(name, by_id[one])}
                if rows is not None and entry not in known:
                    kept.append((by_id[one], rows.filter(pc.equal(rows.column(TOMBSTONE), one))))
        if kept:
            rows = pa.concat_tables([rows for _, rows in kept], promote_options="permissive")
            given.suppression.keep_aside(name, number, rows, TOMBSTONE, is_all=False, of=[each for each, _ in kept])

    def _note(self, name: DatasetName, group: Sequence[Tombstone], number: int) -> None:
        """Write down which commit brings the rows back, before it is made: after a kill it must not be made twice."""
        self.tombstones.vault.put(group[0].batch, _note_name(name, group), str(number).encode())

    def _is_done(self, name: DatasetName, group: Sequence[Tombstone]) -> bool:
        vault, note = self.tombstones.vault, _note_name(name, group)
        if note not in vault.names(group[0].batch):
            return False
        number = int(vault.get(group[0].batch, note))
        return number in find_committed(self.tombstones.lake.files, name).numbers

    def _tidy(self, batches: set[str]) -> None:
        """Forget what is aside of requests that have nothing left to undo."""
        left = {each.batch for each in self.tombstones.store.read() if each.state.can_be_undone}
        for batch in batches - left:
            self.tombstones.vault.destroy(batch)


def check_withdrawable(chosen: Sequence[Tombstone], vault: Vault) -> None:
    """UsageError for a tombstone whose rows are gone, or may be gone from source files already. No JVM."""
    for each in chosen:
        if not each.state.can_be_undone:
            raise _cannot_be_undone(each)
        if is_erasing(each, vault):
            raise _is_being_erased(each)


def find_hidden(lake: Lake, kept: pa.Table, others: Sequence[TableToHide]) -> pa.Table | None:
    """The rows among those kept aside that other tombstones hide, each with the id of the other one."""
    if not others or not kept.num_rows:
        return None
    rows = RowsUndo(lake, others[0].name, "").conform(kept)
    found = []
    for other in others:
        if other.place.json_column is None:
            found.append(Screen((other.keys,)).match(rows))
        else:
            keys = find_stored_keys(rows, other).select([other.place.json_column, TOMBSTONE])
            found.append(rows.join(to_frame(lake.session, keys), other.place.json_column))
    return reduce(DataFrame.unionByName, found).toArrow()


def _leave_out(rows: pa.Table, hidden: pa.Table | None, place: Place) -> pa.Table:
    """Rows kept as JSON text without those that others hide; of other rows, the undo leaves them out itself."""
    if hidden is None or place.json_column is None:
        return rows
    texts = hidden.column(place.json_column).combine_chunks()
    return rows.filter(pc.invert(pc.is_in(rows.column(place.json_column), texts)))


def _cannot_be_undone(tombstone: Tombstone) -> UsageError:
    if tombstone.state is TombstoneState.WITHDRAWN:
        return UsageError(f"tombstone {tombstone.id} was withdrawn before", hint="`penstock tombstone ls` lists them")
    return UsageError(
        f"tombstone {tombstone.id} is {tombstone.state}: its rows are gone and cannot come back",
        hint="`penstock tombstone release` lets the key come back with new data",
    )


def _is_being_erased(tombstone: Tombstone) -> UsageError:
    """The table could get its rows back, but the next rebuild from its source files would lose them."""
    return UsageError(
        f"the erasure of tombstone {tombstone.id} has begun, and source files no longer have its rows: they cannot come back",
        hint="complete it with `penstock erase`; `penstock tombstone release` lets the key come back with new data",
    )


def _note_name(name: DatasetName, group: Sequence[Tombstone]) -> str:
    return f"undone.{name}.{min(each.id for each in group)}"


def _without(suppression: Suppression, table: DatasetName, ids: set[str]) -> Suppression:
    """The suppression as it is once these tombstones are withdrawn."""
    left = tuple(each for each in suppression.tombstones.get(table, ()) if each.id not in ids)
    return replace(suppression, tombstones={**suppression.tombstones, table: left})
