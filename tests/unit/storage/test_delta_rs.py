"""One opener of Delta tables for every room that reads without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.errors import StorageError
from penstock.storage.delta_rs import open_delta_table, to_delta_rs_address


@pytest.mark.parametrize("name", ["plain", "with space", "100%", "e?f", "g#h", "ü"])
@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_local_table_is_found_by_its_path(name: str, prefix: str, tmp_path: Path) -> None:
    write_deltalake(tmp_path / name, pa.table({"x": [1]}))
    assert open_delta_table(f"{prefix}{tmp_path}/{name}").version() == 0


def test_a_path_that_delta_rs_would_misread_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "a b", pa.table({"x": [1]}))
    with pytest.raises(StorageError, match="without Spark"):
        open_delta_table(f"{tmp_path}/a%20b")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("s3a://bucket/table", "s3://bucket/table"),
        ("s3://bucket/table", "s3://bucket/table"),
        ("abfss://c@a/table", "abfss://c@a/table"),
        ("file:///folder/table", "/folder/table"),
        ("/folder/table", "/folder/table"),
    ],
)
def test_addresses_of_spark_are_understood(address: str, expected: str) -> None:
    assert to_delta_rs_address(address) == expected
