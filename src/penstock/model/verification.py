"""The result of comparing a loaded table with its source: which rows are missing, too many or different."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class RowStatus(StrEnum):
    """What is wrong with a row, or why nothing is."""

    EQUAL = "equal"
    MISSING = "missing"
    """The source has it, and the table should."""
    TOO_MANY = "too_many"
    """The table has it, and the source does not."""
    DIFFERENT = "different"
    """Both have it, with other values."""
    DOUBLED = "doubled"
    """The table has its key more than once."""
    PENDING = "pending"
    """It was written after the last load: the next one brings it."""
    LEFT_OUT = "left_out"
    """The load is told to skip rows without a cursor."""

    @property
    def is_wrong(self) -> bool:
        return self in _WRONG


_WRONG = frozenset({RowStatus.MISSING, RowStatus.TOO_MANY, RowStatus.DIFFERENT, RowStatus.DOUBLED})


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The rows of one window: a range of time, or of keys."""

    window: str
    source_rows: int
    target_rows: int
    missing: int = 0
    too_many: int = 0
    different: int = 0
    doubled: int = 0

    @property
    def is_equal(self) -> bool:
        return not (self.missing or self.too_many or self.different or self.doubled)


@dataclass(frozen=True, slots=True)
class WrongRow:
    """A row that is not right, by its key."""

    status: RowStatus
    key: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """How a table compares with its source."""

    table: str
    source: str
    source_rows: int
    target_rows: int
    windows: tuple[WindowResult, ...]
    pending: int = 0
    left_out: int = 0
    rows: tuple[WrongRow, ...] = ()
    """Some of the rows that are wrong."""
    notes: tuple[str, ...] = ()

    def count(self, status: RowStatus) -> int:
        """How many rows have this status; only those that are wrong are counted by window."""
        if status is RowStatus.PENDING:
            return self.pending
        if status is RowStatus.LEFT_OUT:
            return self.left_out
        return sum(getattr(window, status.value) for window in self.windows)

    @property
    def is_equal(self) -> bool:
        """Whether the table has what the source had, up to the last load."""
        return all(window.is_equal for window in self.windows)

    def to_json(self) -> dict[str, object]:
        """For `--json`."""
        counted = [status for status in RowStatus if status is not RowStatus.EQUAL]
        return {
            "table": self.table,
            "source": self.source,
            "equal": self.is_equal,
            "source_rows": self.source_rows,
            "target_rows": self.target_rows,
            **{status.value: self.count(status) for status in counted},
            "windows": [{name: getattr(window, name) for name in WindowResult.__slots__} for window in self.windows],
            "rows": [{"status": row.status.value, "key": row.key} for row in self.rows],
            "notes": list(self.notes),
        }
