"""How large a table is, by its log. No JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.model.names import DatasetName
from penstock.storage.delta_rs import open_delta_table
from penstock.storage.files import Files


@dataclass(frozen=True, slots=True)
class TableSize:
    """The data files that a table has now."""

    files: int
    bytes: int


def read_size(files: Files, name: DatasetName) -> TableSize | None:
    """The size of a table; None when delta-rs cannot open it."""
    try:
        table: Any = open_delta_table(files.spark_path(name.path), files.reader_options)
        sizes: list[int] = table.get_add_actions().column("size_bytes").to_pylist()
    except Exception:  # noqa: BLE001 - the size only decides which way is less work
        return None
    return TableSize(len(sizes), sum(sizes))
