"""Dropping a table whose raw folder is gone: not while definitions read it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.command_line import Penstock
from tests.compat.kept_tables import copy_project


def test_a_table_in_use_is_kept_and_its_readers_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, penstock: Penstock
) -> None:
    root = copy_project(2, tmp_path / "shop").root
    monkeypatch.chdir(root)
    shutil.rmtree(root / "raw/orders")
    done = penstock("run", "--drop-retired", "--select", "staging.orders")
    assert done.code == 1
    for reader in (
        "main.first_totals (transformations/first.sql:1:1)",
        "main.labelled (transformations/big.py:6)",
        "main.order_amounts (transformations/totals.sql:1:1)",
    ):
        assert reader in done.out
    assert list((root / "storage/staging/orders").glob("*.parquet"))
