"""AutoCDC as values: what a flow declares, once names are checked against the columns; and what a batch did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

from penstock.errors import Location
from penstock.model.names import DatasetName
from penstock.model.schema import Column

RESERVED = "__penstock"
"""The one column stored next to the user's columns: the row's own sequence, its row number, and what its event filled in."""
INTERNAL_COLUMNS = frozenset({"_tmp_metadata_row_index", "__delta_internal_is_row_deleted"})
"""Columns that Spark or Delta adds while it reads a file: in place of a column with such a name, it gives its own values."""
START_AT, END_AT = "__START_AT", "__END_AT"


@dataclass(frozen=True, slots=True)
class FlowOptions:
    """What a user declares, with columns by name; lists that were not given are None."""

    keys: tuple[str, ...]
    scd_type: int = 1
    column_list: tuple[str, ...] | None = None
    except_column_list: tuple[str, ...] | None = None
    track_history_column_list: tuple[str, ...] | None = None
    track_history_except_column_list: tuple[str, ...] | None = None
    ignore_null_updates: bool = False
    ignore_null_updates_column_list: tuple[str, ...] | None = None
    ignore_null_updates_except_column_list: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class FeedFiles:
    """A folder of change files; each file is read once."""

    path: str
    format: str = "json"
    envelope: str | None = None
    """`events` or `debezium`; None when each row is a change event already."""
    schema: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    project: str | None = field(default=None, repr=False)
    """The project's folder, for a folder on this machine: the progress keeps paths below it relative to it."""


SnapshotVersion = int | str | date
"""The version of a snapshot: a number, a text, a date or a time. A later snapshot has a greater version."""


@dataclass(frozen=True, slots=True)
class SnapshotFunction:
    """A user's function that returns the next snapshot after a version, and its own version; None when there is none yet."""

    name: str
    function: Callable[[SnapshotVersion | None], Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class FlowSpec:
    """A flow of change events or snapshots into a target, as a definition file declares it."""

    name: str
    source: DatasetName | FeedFiles | SnapshotFunction
    options: FlowOptions
    sequence_by: str | None
    """None for snapshots: their versions order them."""
    apply_as_deletes: str | None = None
    apply_as_truncates: str | None = None
    quarantine: bool = False
    is_snapshot: bool = False
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """How change events become rows of a target. `columns` are those of the target in their order, keys included."""

    keys: tuple[str, ...]
    columns: tuple[Column, ...]
    sequence_type: str
    scd_type: int = 1
    tracked: tuple[str, ...] = ()
    ignore_null: tuple[str, ...] = ()
    """Columns in which a NULL means "not specified"."""
    is_partial: bool = False
    """Change events may leave some columns unspecified: by `ignore_null`, or because the feed has no value for them."""

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
    """Rows written: new rows, and the new form of changed rows."""
    rows_removed: int = 0
    """Rows removed: deleted rows, and the old form of changed rows."""
    remembered: int = 0
    """Change events added to the auxiliary table."""
    auxiliary_rows: int = 0
    auxiliary_bytes: int = 0
    quarantined: int = 0
    suppressed: int = 0
    """Change events that were left out because their key has a tombstone; they are not among the events."""
    version: int | None = None
    """The version of the target that the batch committed; None when there was nothing to commit."""
    is_repeat: bool = False
    """The batch id was applied before, with the same content."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
