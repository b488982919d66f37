"""Keys of landed files are counted as Spark would count them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.kinds.table_load.landed_keys import KeyCounts, count_keys, is_countable
from penstock.storage.local import LocalFiles


def land(folder: Path, *tables: pa.Table) -> tuple[LocalFiles, list[str]]:
    names = [f"{number}.parquet" for number in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        pq.write_table(table, folder / name)
    return LocalFiles(folder), names


def test_keys_are_counted_over_all_files(tmp_path: Path) -> None:
    first = pa.table({"a": [1, 2, 2, None], "b": ["x", "y", "z", "x"], "count_all": [0, 0, 0, 0]})
    second = pa.table({"a": [1, 3, None], "b": ["x", None, "x"], "count_all": [0, 0, 1]})
    files, names = land(tmp_path, first, second)
    assert count_keys(files, names, ["a", "b"]) == KeyCounts(7, nulls=3, repeated=2)  # (1, x) and (NULL, x)
    assert count_keys(files, names, ["count_all"]) == KeyCounts(7, nulls=0, repeated=1)
    assert count_keys(files, names, []) == KeyCounts(7, nulls=0, repeated=0)


def test_no_rows_and_names_with_dots(tmp_path: Path) -> None:
    files, names = land(tmp_path, pa.table({"a": pa.array([], pa.int64())}))
    assert count_keys(files, names, ["a"]) == KeyCounts(0, 0, 0)
    files, names = land(tmp_path, pa.table({"a": [1, 2], "a.b": [1, 1]}))
    assert count_keys(files, names, ["a"]) == KeyCounts(2, 0, 0)
    assert count_keys(files, names, ["a.b"]) == KeyCounts(2, 0, 1)


def test_a_folder_as_spark_lands_one(tmp_path: Path) -> None:
    (tmp_path / "empty.parquet").mkdir()
    (tmp_path / "empty.parquet" / "_SUCCESS").touch()
    (tmp_path / "rows.parquet").mkdir()
    land(tmp_path / "rows.parquet", pa.table({"a": [1, 2]}), pa.table({"a": [2, None]}))
    files = LocalFiles(tmp_path)
    assert count_keys(files, ["rows.parquet", "empty.parquet"], ["a"]) == KeyCounts(4, nulls=1, repeated=1)
    assert count_keys(files, ["empty.parquet"], ["a"]) == KeyCounts(0, 0, 0)


@pytest.mark.parametrize("type_", ["bigint", "decimal(38,2)", "timestamp_ntz", "string", "binary"])
def test_types_that_arrow_compares_as_spark_does(type_: str) -> None:
    assert is_countable(type_)
    assert not is_countable("double")  # 0.0 and -0.0 are one value for Spark and for databases
    assert not is_countable("array<int>")
