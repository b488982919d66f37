"""Drift as values: how a table's columns change, each column change with its safety and a text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Safety(StrEnum):
    """What a column change needs."""

    NOTED = "noted"
    """Nothing: the table stays as it is."""
    IN_PLACE = "in_place"
    """A change of the table's metadata; no row is written again."""
    REBUILD = "rebuild"
    """Every row is written again, from the raw files."""


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One change of one column; `before` and `after` are types, or names for a rename."""

    code: str
    column: str
    safety: Safety
    text: str
    before: str | None = None
    after: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "column": self.column,
            "safety": self.safety.value,
            "text": self.text,
            "before": self.before,
            "after": self.after,
        }
