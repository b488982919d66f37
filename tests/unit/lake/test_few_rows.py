"""Reading a few rows of a Delta table without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import convert_to_deltalake, write_deltalake

from penstock.lake.few_rows import FewRows, is_one_of, is_open_or_from
from penstock.model.names import DatasetName
from penstock.storage.files import open_files


def few_rows(folder: Path) -> FewRows:
    return FewRows(open_files(str(folder)), DatasetName("db", "t"))


def found(folder: Path, *conditions: str | None, most: int = 10) -> list[dict[str, Any]] | None:
    rows = few_rows(folder).read(["id"], [condition for condition in conditions if condition], most)
    return sorted(rows.to_pylist(), key=lambda row: row["id"]) if rows is not None else None


def test_timestamps_as_spark_writes_them_keep_their_year(tmp_path: Path) -> None:
    times = [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(2024, 5, 6, 7, 8, 9, 123456, UTC),
        datetime(9999, 12, 31, tzinfo=UTC),
    ]
    rows = pa.table({"id": [1, 2, 3], "at": pa.array(times, pa.timestamp("us", "UTC"))})
    (tmp_path / "db" / "t").mkdir(parents=True)
    pq.write_table(rows, tmp_path / "db" / "t" / "part.parquet", use_deprecated_int96_timestamps=True)
    convert_to_deltalake(tmp_path / "db" / "t")
    read = few_rows(tmp_path).read(["at"], ["TRUE"], 10)
    assert read is not None
    assert sorted(read.column("at").cast(pa.timestamp("us", "UTC")).to_pylist()) == times


@pytest.mark.parametrize("value", ["it's", "", "ü", 'a"b', "a\\nb", "--"])
def test_any_text_can_be_looked_for(tmp_path: Path, value: str) -> None:
    write_deltalake(tmp_path / "db" / "t", pa.table({"id": [value, "other"]}))
    assert found(tmp_path, is_one_of("id", "string", pa.array([value]))) == [{"id": value}]


def test_open_rows_and_those_that_end_late_are_found(tmp_path: Path) -> None:
    micros = pa.array([5_000_000, 9_000_400, None], pa.timestamp("us", "UTC"))
    write_deltalake(tmp_path / "db" / "t", pa.table({"id": [1, 2, 3], "end": micros}))
    assert found(tmp_path, is_open_or_from("end", "timestamp", "9000300")) == [{"id": 2}, {"id": 3}]


def test_too_many_rows_and_tables_that_cannot_be_read_are_left_to_spark(tmp_path: Path) -> None:
    assert found(tmp_path, "TRUE") is None
    write_deltalake(tmp_path / "db" / "t", pa.table({"id": [1, 2, 3]}))
    assert found(tmp_path, "TRUE", most=2) is None
    assert found(tmp_path, is_one_of("id", "bigint", pa.array([], pa.int64()))) == []


def test_types_without_a_sure_text_give_no_condition() -> None:
    assert is_one_of("id", "double", pa.array([1.0])) is None
    assert is_open_or_from("end", "struct<a:int>", "1") is None
