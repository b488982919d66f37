"""Raw files of the sample project: a made-up shop, with the same rows for the same number on every machine.

A few rows are invalid on purpose (orders without a customer, an unknown status, lines without a quantity, customers
without a country), so that expectations find something.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]

FIRST_CUSTOMERS, MORE_CUSTOMERS = 40, 10
FIRST_ORDERS, MORE_ORDERS = 200, 50
DAYS_PER_BATCH = 30
PRODUCTS = (
    ("Kettle", "kitchen", "34.90"),
    ("Tea pot", "kitchen", "24.50"),
    ("Bread knife", "kitchen", "18.00"),
    ("Cutting board", "kitchen", "15.75"),
    ("Desk lamp", "office", "49.00"),
    ("Notebook", "office", "4.20"),
    ("Fountain pen", "office", "62.00"),
    ("Paper tray", "office", "11.30"),
    ("Watering can", "garden", "21.60"),
    ("Flower bulbs", "garden", "7.95"),
    ("Garden gloves", "garden", "9.40"),
    ("Hand rake", "garden", "13.10"),
)
_START = datetime(2025, 1, 1, tzinfo=UTC)
_GIVEN = ("Ana", "Ben", "Chloe", "Dag", "Eva", "Femi", "Gita", "Hugo", "Ines", "Jun")
_FAMILY = ("Berg", "Costa", "Dubois", "Ito", "Klein", "Moreau", "Novak", "Okoro", "Rossi", "Silva")
_COUNTRIES = ("DE", "FR", "IT", "JP", "NO")
_STATUSES = ("placed", "shipped", "shipped", "shipped", "returned")


def write_sample_batch(project_root: Path, number: int) -> list[Path]:
    """Write batch `number` of the sample's raw files and return their paths; an existing batch is never replaced.

    The first batch has all four tables; a later one has new customers, orders and order items, and no products.
    """
    if number < 1:
        raise UsageError(f"{number} is not a batch number", hint="batch numbers start at 1")
    tables = _tables(number)
    files = {project_root / "raw" / table / f"{number:04}.parquet": make for table, make in tables.items()}
    for file in files:
        if file.exists():
            raise UsageError(f"batch {number} already exists: {file}", hint="use the next number")
    for file, make in files.items():
        _write(file, make(number))
    return list(files)


def write_drifted_batch(project_root: Path, number: int) -> Path:
    """Write order items whose columns differ from those of the batches before, and return the path."""
    file = project_root / "raw" / "order_items" / f"{number:04}.parquet"
    if file.exists():
        raise UsageError(f"batch {number} already exists: {file}", hint="use the next number")
    _write(file, _drifted_order_items(number))
    return file


def last_sample_batch(project_root: Path) -> int:
    """The number of the last batch of the sample's orders, or 0 when there is none."""
    names = [file.stem for file in (project_root / "raw" / "orders").glob("*.parquet")]
    return max((int(name) for name in names if name.isdecimal()), default=0)


def _tables(number: int) -> dict[str, Callable[[int], pa.Table]]:
    tables: dict[str, Callable[[int], pa.Table]] = {
        "customers": _customers,
        "orders": _orders,
        "order_items": _order_items,
    }
    return {**tables, "products": _products} if number == 1 else tables


def _write(file: Path, table: pa.Table) -> None:
    """Write beside the file and rename, so that a run that looks meanwhile never sees half a file."""
    import pyarrow.parquet as pq

    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.unfinished")
    pq.write_table(table, unfinished, coerce_timestamps="us")
    unfinished.replace(file)


def _numbers(batch: int, first: int, more: int) -> range:
    """The keys that a batch adds."""
    start = 1 if batch == 1 else 1 + first + (batch - 2) * more
    return range(start, start + (first if batch == 1 else more))


def _last(batch: int, first: int, more: int) -> int:
    return _numbers(batch, first, more).stop - 1


def _random(batch: int, table: str) -> random.Random:
    return random.Random(f"{table} {batch}")  # noqa: S311  # the same rows everywhere are the point


def _table(fields: list[tuple[str, Any]], rows: list[Row]) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema(fields)
    columns = list(zip(*rows, strict=True))
    return pa.table([pa.array(column, f.type) for column, f in zip(columns, schema, strict=True)], schema=schema)


def _customers(batch: int) -> pa.Table:
    import pyarrow as pa

    rng = _random(batch, "customers")
    rows: list[Row] = []
    for key in _numbers(batch, FIRST_CUSTOMERS, MORE_CUSTOMERS):
        name = f"{rng.choice(_GIVEN)} {rng.choice(_FAMILY)}"
        country = None if key % 30 == 0 else rng.choice(_COUNTRIES)
        signed_up = date(2024, 1, 1) + timedelta(days=rng.randrange(360))
        rows.append((key, name, country, signed_up, rng.random() < 0.4, _START + timedelta(days=30 * (batch - 1))))
    fields = [
        ("customer_id", pa.int64()),
        ("name", pa.string()),
        ("country", pa.string()),
        ("signed_up_on", pa.date32()),
        ("newsletter", pa.bool_()),
        ("updated_at", pa.timestamp("us", tz="UTC")),
    ]
    return _table(fields, rows)


def _products(batch: int) -> pa.Table:  # noqa: ARG001  # the first batch has them all
    import pyarrow as pa

    rows: list[Row] = [
        (key, title, category, Decimal(price), key == len(PRODUCTS))
        for key, (title, category, price) in enumerate(PRODUCTS, start=1)
    ]
    fields = [
        ("product_id", pa.int64()),
        ("title", pa.string()),
        ("category", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("discontinued", pa.bool_()),
    ]
    return _table(fields, rows)


def _orders(batch: int) -> pa.Table:
    import pyarrow as pa

    rng = _random(batch, "orders")
    customers = _last(batch, FIRST_CUSTOMERS, MORE_CUSTOMERS)
    begin = _START + timedelta(days=DAYS_PER_BATCH * (batch - 1))
    rows: list[Row] = []
    for key in _numbers(batch, FIRST_ORDERS, MORE_ORDERS):
        customer = rng.randint(1, customers)
        status = rng.choice(_STATUSES)
        at = begin + timedelta(seconds=rng.randrange(DAYS_PER_BATCH * 86_400), microseconds=rng.randrange(1_000_000))
        wrong_status = "lost?" if key % 45 == 0 else status
        rows.append((key, None if key % 40 == 0 else customer, wrong_status, rng.random() < 0.2, at))
    fields = [
        ("order_id", pa.int64()),
        ("customer_id", pa.int64()),
        ("status", pa.string()),
        ("express", pa.bool_()),
        ("ordered_at", pa.timestamp("us", tz="UTC")),
    ]
    return _table(fields, rows)


def _order_items(batch: int) -> pa.Table:
    import pyarrow as pa

    rng = _random(batch, "order_items")
    rows: list[Row] = []
    for order in _numbers(batch, FIRST_ORDERS, MORE_ORDERS):
        for line in range(1, rng.randint(1, 4) + 1):
            product = rng.randint(1, len(PRODUCTS))
            quantity = 0 if order % 48 == 0 and line == 1 else rng.randint(1, 5)
            rows.append((order, line, product, quantity, Decimal(PRODUCTS[product - 1][2])))
    fields = [
        ("order_id", pa.int64()),
        ("line", pa.int64()),
        ("product_id", pa.int64()),
        ("quantity", pa.int32()),
        ("unit_price", pa.decimal128(10, 2)),
    ]
    return _table(fields, rows)


def _drifted_order_items(batch: int) -> pa.Table:
    """The shop begins to sell by weight and to give discounts: quantity has decimals, and there is a column more."""
    import pyarrow as pa

    items = _order_items(batch)
    quantities = [Decimal(q) + Decimal("0.250") * (q > 0) for q in items["quantity"].to_pylist()]
    discounts = [Decimal("0.10") if number % 3 == 0 else None for number in range(items.num_rows)]
    place = items.schema.get_field_index("quantity")
    items = items.set_column(place, "quantity", pa.array(quantities, pa.decimal128(10, 3)))
    return items.append_column("discount", pa.array(discounts, pa.decimal128(4, 2)))
