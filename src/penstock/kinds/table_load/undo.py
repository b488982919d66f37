"""Undoing tombstones of a load: rows come back as they were; of a table with keys, the last row of each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.faults import fault_point
from penstock.kinds.protocol import PipelineRun
from penstock.kinds.table_load.merging import same_keys
from penstock.kinds.table_load.progress import CODEC
from penstock.kinds.undo import OnBegun, RowsUndo, Undo
from penstock.lake.restating import restate
from penstock.lake.statements import quote
from penstock.lake.tables import Lake
from penstock.model.changes import START_AT
from penstock.model.dataset import Dataset
from penstock.model.loads import LoadOptions
from penstock.model.names import DatasetName
from penstock.model.tombstones import SuppressedKeys
from penstock.tombstones.suppression import Suppression
from penstock.transforms.suppress import TOMBSTONE, Screen

_PLACE = "__penstock_place"


def to_undo(lake: Lake, dataset: Dataset, run: PipelineRun) -> Undo:
    """How hidden rows of a load come back."""
    options = dataset.spec.load if dataset.spec else None
    if options is None or not options.keys:
        return ComparedUndo(RowsUndo(lake, dataset.name, run.build_request_id), lake, dataset.name)
    keyed = KeyedUndo(lake, dataset.name, run.build_request_id, options, run.suppression)
    return ComparedUndo(keyed, lake, dataset.name)


@dataclass(frozen=True, slots=True)
class ComparedUndo:
    """Rows come back, and the next load compares them with the source, even if the source has not changed since."""

    undo: Undo
    lake: Lake
    name: DatasetName

    @property
    def keeps_rows(self) -> bool:
        return self.undo.keeps_rows

    def take(self, hidden: Sequence[SuppressedKeys]) -> pa.Table:
        return self.undo.take(hidden)

    def put_back(self, kept: pa.Table, still_hidden: Sequence[SuppressedKeys], on_begun: OnBegun) -> None:
        """Forget what says that nothing changed, before the rows come: a kill in between costs one comparison."""
        state = self.lake.read_state(self.name, CODEC)
        known = state.payload
        if known is not None and (known.stamp is not None or known.checksum is not None):
            restate(self.lake, self.name, CODEC, state, replace(known, stamp=None, checksum=None))
        self.undo.put_back(kept, still_hidden, on_begun)


@dataclass(frozen=True, slots=True)
class KeyedUndo:
    """Rows are kept as they are; several loads may have kept versions of one key aside, of which the last one counts."""

    lake: Lake
    name: DatasetName
    build_request_id: str
    options: LoadOptions
    suppression: Suppression
    """As it is after the undo."""
    keeps_rows: bool = True

    def take(self, hidden: Sequence[SuppressedKeys]) -> pa.Table:
        return Screen(tuple(hidden)).match(self.lake.read(self.name)).toArrow()

    def put_back(self, kept: pa.Table, still_hidden: Sequence[SuppressedKeys], on_begun: OnBegun) -> None:
        """Insert the rows whose keys the table lacks, so that doing it twice changes nothing."""
        table = self.lake.read(self.name)
        known = {name.lower(): name for name in table.columns}
        keys = [known[key.lower()] for key in self.options.keys]
        keys += [START_AT] if self.options.scd_type == 2 else []
        last = _keep_last(kept, keys)
        rows = RowsUndo(self.lake, self.name, self.build_request_id).conform(last)
        screen = Screen(tuple(still_hidden))
        begun = self.lake.begin_again(self.name, self.build_request_id)
        on_begun(begun.number)
        if screen and screen.can_be_undone:
            left_out = screen.undoable().match(rows).toArrow()
            self.suppression.keep_aside(self.name, begun.number, left_out, TOMBSTONE, is_all=False)
        fault_point("undo.before_commit", str(self.name))
        names = ", ".join(map(quote, table.columns))
        values = ", ".join(f"s.{quote(name)}" for name in table.columns)
        new = f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"  # noqa: S608 - every name is quoted
        self.lake.merge_into(screen.drop(rows), same_keys(keys), self.name, begun.number, new)


def _keep_last(kept: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The last row of each key, in the order in which they were kept aside; each row once."""
    numbered = kept.append_column(_PLACE, pa.array(range(kept.num_rows), pa.int64()))
    last = numbered.group_by(list(keys)).aggregate([(_PLACE, "max")]).column(f"{_PLACE}_max")
    return kept.take(last.combine_chunks().sort())
