"""AutoCDC as values: what a flow declares, once names are checked against the columns; and what a batch did."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from penstock.model.schema import Column

RESERVED = "__penstock"
"""The one column that is stored beside the user's: the row's own sequence, its number, and what its event gave."""
START_AT, END_AT = "__START_AT", "__END_AT"


@dataclass(frozen=True, slots=True)
class Flow:
    """How change events become rows of a target. `columns` are those of the target in their order, keys included."""

    keys: tuple[str, ...]
    columns: tuple[Column, ...]
    sequence_type: str
    scd_type: int = 1
    tracked: tuple[str, ...] = ()
    ignore_null: tuple[str, ...] = ()
    """Columns in which a NULL says nothing."""
    is_partial: bool = False
    """Events may say nothing about some columns: by `ignore_null`, or because the feed could not give a value."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        known = {column.key: column for column in self.columns}
        return tuple(known[key.lower()] for key in self.keys)

    @property
    def keeps_history(self) -> bool:
        return self.scd_type == 2


@dataclass(frozen=True, slots=True)
class ChangeMetrics:
    """What applying one batch did."""

    events: int = 0
    rows_added: int = 0
    """Rows written: new ones, and changed ones in their new form."""
    rows_removed: int = 0
    """Rows taken out: gone, or changed and written anew."""
    remembered: int = 0
    """Events added to the auxiliary table."""
    auxiliary_rows: int = 0
    auxiliary_bytes: int = 0
    quarantined: int = 0
    version: int | None = None
    """The version of the target that the batch made; None when there was nothing to commit."""
    is_repeat: bool = False
    """The batch id was applied before, with the same content."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
