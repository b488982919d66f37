"""The raw files of the staging benchmark: the same rows on every machine, in the columns that staging tables mostly have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_NAMES = pa.array([f"customer {number:04}" for number in range(1000)])
_BEYOND_INT = 2**33
_START = 1_700_000_000_000_000


def make_batch(rows: int, batch: int) -> pa.Table:
    """One batch of five columns: bigint, int, double, string and timestamp."""
    ids = pa.array(range(batch * rows, (batch + 1) * rows), pa.int64())
    return pa.table(
        {
            "id": ids,
            "amount": _whole(rows, 100_000, batch * 3).cast(pa.int32()),
            "price": pc.round(pc.multiply(pc.random(rows, initializer=batch * 3 + 1), 1000.0), 2),
            "customer": _NAMES.take(_whole(rows, len(_NAMES), batch * 3 + 2)),
            "at": pc.add(pc.multiply(ids, 1_000_000), _START).cast(pa.timestamp("us", tz="UTC")),
        }
    )


def _whole(rows: int, below: int, seed: int) -> pa.Array:
    return pc.floor(pc.multiply(pc.random(rows, initializer=seed), float(below))).cast(pa.int64())


def add_column(rows: pa.Table) -> pa.Table:
    """The rows with a column that the table does not know yet."""
    return rows.append_column("discount", pc.multiply(rows["price"], 0.1))


def widen_amount(rows: pa.Table) -> pa.Table:
    """The rows with amounts that an int cannot hold any more."""
    place = rows.schema.get_field_index("amount")
    return rows.set_column(place, "amount", pc.add(rows["amount"].cast(pa.int64()), _BEYOND_INT))


def make_project(root: Path) -> Path:
    """An empty project: a raw folder and no definitions."""
    (root / "raw").mkdir(parents=True)
    (root / "penstock.yml").write_text("name: bench\n")
    return root


def write_batch(root: Path, table: str, batch: str, rows: pa.Table) -> Path:
    """A new raw file of a staging table."""
    file = root / "raw" / table / f"{batch}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file)
    return file
