"""Undoing tombstones: what is kept aside of the rows that are hidden, and how it comes back.

A kind whose table can be computed again keeps nothing: its `undo` is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from penstock.faults import fault_point
from penstock.lake.tables import Lake
from penstock.model.names import DatasetName
from penstock.model.tombstones import SuppressedKeys
from penstock.transforms.arrow import to_frame
from penstock.transforms.conform import conform_field
from penstock.transforms.suppress import TOMBSTONE, Screen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OnBegun = Callable[[int], None]
"""Told the number of the commit that brings rows back, before it is made."""


class Undo(Protocol):
    """How hidden rows of one table are kept aside and come back."""

    @property
    def keeps_rows(self) -> bool:
        """Whether what is kept are the rows as they are, so that nothing else needs to be read to hide them."""

    def take(self, hidden: Sequence[SuppressedKeys]) -> pa.Table:
        """What must be kept of the rows with these keys, with the id of each one's tombstone in `__tombstone`."""

    def put_back(self, kept: pa.Table, still_hidden: Sequence[SuppressedKeys], on_begun: OnBegun) -> None:
        """Bring back what was kept aside, except keys that other tombstones hide."""


@dataclass(frozen=True, slots=True)
class RowsUndo:
    """Rows are kept as they are, and appended again in one commit."""

    lake: Lake
    name: DatasetName
    build_request_id: str
    keeps_rows: bool = True

    def take(self, hidden: Sequence[SuppressedKeys]) -> pa.Table:
        return Screen(tuple(hidden)).match(self.lake.read(self.name)).toArrow()

    def put_back(self, kept: pa.Table, still_hidden: Sequence[SuppressedKeys], on_begun: OnBegun) -> None:
        rows = Screen(tuple(still_hidden)).drop(self.conform(kept))
        begun = self.lake.begin_again(self.name, self.build_request_id)
        on_begun(begun.number)
        fault_point("undo.before_commit", str(self.name))
        self.lake.append(rows, self.name, begun.number)

    def conform(self, kept: pa.Table) -> DataFrame:
        """The rows with the columns that the table has now; columns that came since are NULL."""
        rows = to_frame(self.lake.session, kept.drop_columns([TOMBSTONE]))
        columns = self.lake.read(self.name).schema.fields
        return rows.select(
            *(conform_field(rows.schema.fields, field.name, field.dataType.simpleString()) for field in columns)
        )
