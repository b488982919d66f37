"""Raw text files for tests: written, and read as a plan and a load read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from penstock.model.schema import Footer
from penstock.model.text_files import TextFiles
from penstock.storage.local import LocalFiles
from penstock.storage.text.landing import LINE, Landing
from penstock.storage.text.reading import TextReading, read_text_footer


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a plan knows about a file, and what a load gets from it."""

    footer: Footer
    rows: list[dict[str, Any]]
    lines: list[int]
    bad: list[dict[str, Any]]

    @property
    def types(self) -> dict[str, str]:
        return {column.name: column.type for column in self.footer.columns}

    def values(self, name: str) -> list[Any]:
        return [row.get(name) for row in self.rows]


def arrive(
    folder: Path,
    content: bytes | str,
    name: str = "1.csv",
    declared: Mapping[str, str] | None = None,
    settings: TextFiles | None = None,
) -> Arrived:
    """Write a raw file, read it once for its footer, and land it."""
    files = LocalFiles(folder)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    reading = TextReading(settings or TextFiles(), declared or {})
    footer = read_text_footer(files, name, reading)
    bad = Landing(files, files, reading.settings).land(name, footer, footer.columns, "landed/1.parquet")
    rows = pq.read_table(folder / "landed/1.parquet").to_pylist()
    lines = [row.pop(LINE) for row in rows]
    return Arrived(footer, rows, lines, pq.read_table(folder / bad).to_pylist() if bad else [])


def is_same_value(text: str, value: Any) -> bool:
    """Whether a value is the one that a text stands for."""
    match value:
        case bool():
            return text == str(value).lower()
        case int():
            return text == str(value)
        case float():
            return text.lower() not in {"nan", "inf"} and Decimal(text) == Decimal(repr(value))
        case Decimal():
            return Decimal(text) == value
        case datetime():
            return datetime.fromisoformat(text) == value
        case date():
            return text == value.isoformat()
    return bool(text == value)


def find_differences(
    source: Sequence[Sequence[str | None]], names: Sequence[str], arrived: Arrived
) -> list[tuple[str, Any, Any]]:
    """The values that are not those of the source: column, value there, value here."""
    found = []
    if len(arrived.rows) != len(source):
        return [("rows", len(source), len(arrived.rows))]
    for given, row in zip(source, arrived.rows, strict=True):
        for name, text in zip(names, given, strict=True):
            value = row.get(name)
            is_same = value is None if text is None else value is not None and is_same_value(text, value)
            found += [] if is_same else [(name, text, value)]
    return found
