"""When the plan suggests that a column was renamed, by the values that footers tell. No JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from builders import write_raw
from shops import Shop

DAYS_BEYOND_PYTHON = pa.array([3_000_000, 3_000_001], pa.date32())
"""Dates after the year 9999: Parquet and Spark have them, Python has not."""


def suggestions(shop: Shop) -> list[str]:
    (plan,) = shop.plan("orders").items
    assert (plan.action.value, plan.problem) == ("evolve", None)
    return [reason.text for reason in plan.reasons if reason.code == "rename_suggested"]


@pytest.mark.parametrize(
    ("old", "new", "suggested"),
    [
        (["a", "m"], ["b"], True),
        (["a", "b"], ["m"], False),
        ([1, 9], [5], True),
        (pa.array([{"x": 1}]), ["b"], False),  # both are text in the table, but footers tell numbers of one of them
        (DAYS_BEYOND_PYTHON, DAYS_BEYOND_PYTHON, False),
        ([float("nan")], [float("nan")], False),
        (pa.array([None], pa.string()), ["b"], False),
    ],
)
def test_a_rename_is_suggested_only_over_values_that_can_be_compared(
    tmp_path: Path, old: Any, new: Any, suggested: bool
) -> None:
    shop = Shop(tmp_path / "shop")
    write_raw(shop.raw.root / "orders/1.parquet", {"id": [*range(len(old))], "cust": old})
    shop.done()
    write_raw(shop.raw.root / "orders/2.parquet", {"id": [*range(len(new))], "customer": new})
    assert bool(suggestions(shop)) is suggested


def test_a_file_that_is_gone_suggests_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop")
    write_raw(shop.raw.root / "orders/1.parquet", {"id": [1, 2], "cust": ["a", "m"]})
    shop.done()
    (shop.raw.root / "orders/1.parquet").unlink()
    write_raw(shop.raw.root / "orders/2.parquet", {"id": [3], "customer": ["b"]})
    assert suggestions(shop) == []
