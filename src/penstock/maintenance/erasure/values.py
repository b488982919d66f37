"""Erasure as values: what is asked, which tables it concerns, and what was done. Nothing here holds a clear value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.model.names import DatasetName
from penstock.model.receipt_json import to_json
from penstock.model.receipts import Receipt
from penstock.model.tombstones import Tombstone

DRAFTS = "_penstock/erasures"
"""Receipts of erasures whose clear values are being destroyed: enough to finish after a kill."""


@dataclass(frozen=True, slots=True)
class HiddenTable:
    """What hiding did to one table."""

    table: DatasetName
    keys: int
    rows: int
    version: int | None
    """The version that no longer shows the rows; None when the table had none."""

    def to_json(self) -> dict[str, Any]:
        return {"table": str(self.table), "keys": self.keys, "rows": self.rows, "version": self.version}


@dataclass(frozen=True, slots=True)
class Hidden:
    """What a request hid."""

    batch: str
    tombstones: tuple[Tombstone, ...]
    tables: tuple[HiddenTable, ...]
    recomputed: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()
    """Datasets computed from the tables whose rows were removed without computing them again."""
    failed: tuple[str, ...] = ()
    """Datasets computed from the tables that could not be brought up to date."""

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "tombstones": [each.id for each in self.tombstones],
            "tables": [each.to_json() for each in self.tables],
            "recomputed": list(self.recomputed),
            "erased_directly": list(self.erased),
            "failed": list(self.failed),
        }


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure proved; nothing when there was nothing to erase."""

    receipts: tuple[Receipt, ...] = ()
    files_searched: int = 0
    """Source files that came after an erasure, and were searched for erased keys."""

    def to_json(self) -> dict[str, Any]:
        return {"receipts": [to_json(each) for each in self.receipts], "files_searched": self.files_searched}
