"""Withdrawing tombstones before the physical step: the rows come back unchanged, and what was kept out meanwhile too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import UsageError
from penstock.faults import fault_point
from penstock.kinds.undo import RowsUndo, Undo
from penstock.lake.delta_log import iter_commits
from penstock.maintenance.erasure.tombstones import Tombstones
from penstock.model.dataset import Form
from penstock.model.names import DatasetName
from penstock.model.tombstones import SuppressedKeys, Tombstone, TombstoneState
from penstock.tombstones.suppression import Suppression, find_kept_aside
from penstock.transforms.suppress import TOMBSTONE


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Withdraws tombstones of one project."""

    tombstones: Tombstones

    def withdraw(self, chosen: Sequence[Tombstone]) -> tuple[DatasetName, ...]:
        """Bring the rows of these tombstones back; gives the tables that must be computed again."""
        for each in chosen:
            if not each.state.can_be_undone:
                raise UsageError(
                    f"tombstone {each.id} is {each.state}: its rows are gone and cannot come back",
                    hint="`penstock tombstone release` lets the key come back with new data",
                )
        recompute = []
        for table in dict.fromkeys(each.table for each in chosen):
            group = [each for each in chosen if each.table == table]
            if not self._put_back(table, group):
                recompute.append(table)
            self.tombstones.store.move(group, TombstoneState.WITHDRAWN)
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
        for place in kind.places(dataset, given.catalog.state(dataset)):
            if place.form is Form.DELTA and place.is_ours:
                name = DatasetName(*place.uri.split("/", 1))
                is_own = name == table
                way = undo if is_own else RowsUndo(given.lake, name, given.build_request_id)
                self._put_back_rows(name, group, way, after.of(table) if is_own else ())
        return True

    def _put_back_rows(
        self, name: DatasetName, group: Sequence[Tombstone], undo: Undo, still_hidden: Sequence[SuppressedKeys]
    ) -> None:
        given = self.tombstones
        committed = given.lake.state(name).number or 0
        ids = pa.array([each.id for each in group], pa.string())
        kept = []
        for batch in dict.fromkeys(each.batch for each in group):
            for entry in find_kept_aside(given.vault, batch, name, committed):
                rows = given.vault.get_table(batch, entry.name)
                kept.append(rows.filter(pc.is_in(rows.column(TOMBSTONE), ids)))
        rows = pa.concat_tables(kept, promote_options="permissive") if kept else None
        if rows is None or not rows.num_rows or self._is_done(name, group):
            return
        undo.put_back(rows, still_hidden, lambda number: self._note(name, group, number))
        fault_point("undo.after_commit", str(name))

    def _note(self, name: DatasetName, group: Sequence[Tombstone], number: int) -> None:
        """Write down which commit brings the rows back, before it is made: after a kill it must not be made twice."""
        self.tombstones.vault.put(group[0].batch, _note_name(name, group), str(number).encode())

    def _is_done(self, name: DatasetName, group: Sequence[Tombstone]) -> bool:
        vault, note = self.tombstones.vault, _note_name(name, group)
        if note not in vault.names(group[0].batch):
            return False
        number = int(vault.get(group[0].batch, note))
        return any(commit.number == number for commit in iter_commits(self.tombstones.lake.files, name.path))

    def _tidy(self, batches: set[str]) -> None:
        """Forget what is aside of requests that have nothing left to undo."""
        left = {each.batch for each in self.tombstones.store.read() if each.state.can_be_undone}
        for batch in batches - left:
            self.tombstones.vault.destroy(batch)


def _note_name(name: DatasetName, group: Sequence[Tombstone]) -> str:
    return f"undone.{name}.{min(each.id for each in group)}"


def _without(suppression: Suppression, table: DatasetName, ids: set[str]) -> Suppression:
    """The suppression as it is once these tombstones are withdrawn."""
    left = tuple(each for each in suppression.tombstones.get(table, ()) if each.id not in ids)
    return replace(suppression, tombstones={**suppression.tombstones, table: left})
