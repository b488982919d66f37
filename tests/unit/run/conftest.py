"""The project that tests of planning start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import make_spec, write_raw
from penstock.model.spec import DatasetKind
from shops import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Two raw tables, two chains of definitions."""
    made = Shop(tmp_path / "shop")
    write_raw(made.raw.root / "orders/1.parquet", {"id": [1, 2]})
    write_raw(made.raw.root / "customers/1.parquet", {"id": [1]})
    made.specs = (
        make_spec("clean", "staging.orders", DatasetKind.TEMPORARY_VIEW),
        make_spec("totals", "clean", tags=("nightly",)),
        make_spec("report", "totals staging.customers"),
        make_spec("people", "staging.customers"),
    )
    return made
