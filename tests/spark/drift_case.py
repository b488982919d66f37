"""A kind of drift as a case: what raw had, what comes, what is declared, and what must follow. Real Parquet files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

BEYOND = 2**53 + 1
Batch = pa.Table


def table(**columns: tuple[pa.DataType, list[Any]]) -> Batch:
    """A batch from columns given as type and values."""
    return pa.table({name: pa.array(values, type_) for name, (type_, values) in columns.items()})


def ids(*values: int) -> tuple[pa.DataType, list[Any]]:
    return pa.int64(), list(values)


@dataclass(frozen=True)
class Case:
    """One table: batches before a run, batches (or removals) after it, and the second run's outcome."""

    before: tuple[Batch, ...]
    after: tuple[Batch, ...] = ()
    contract: Mapping[str, Any] = field(default_factory=dict)
    """What is declared from the second run on."""
    contract_before: Mapping[str, Any] = field(default_factory=dict)
    remove: tuple[int, ...] = ()
    """Batches of the first run that are gone by the second."""
    change: Mapping[int, Batch] = field(default_factory=dict)
    action: str = "append"
    codes: str = "new_files"
    problem: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    """Columns, lower-cased, with their Spark types after the second run."""
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    """Rows after the second run, columns in the order of their names."""
    set_aside: int = 0


W, L, F, D, S = pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()
DAY = dt.date(2024, 2, 29)


def amounts(type_: pa.DataType, *values: Any, start: int = 1) -> Batch:
    return table(id=(L, list(range(start, start + len(values)))), amount=(type_, list(values)))


ID = {"id": "bigint"}
