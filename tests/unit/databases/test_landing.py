"""Parquet files of a landing: several, of bounded size, complete or absent."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.databases import landing
from penstock.databases.landing import Landing, to_arrow_type
from penstock.storage.local import LocalFiles

SCHEMA = pa.schema([("a", pa.int64())])


def rows(number: int) -> pa.Table:
    return pa.table({"a": list(range(number))}, schema=SCHEMA)


def test_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing, "_GROUP_BYTES", 4_000)
    monkeypatch.setattr(landing, "_FILE_BYTES", 2_000)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "part-0001.parquet").write_bytes(b"what a killed attempt left")
    with Landing(LocalFiles(tmp_path), "x/part", SCHEMA) as place:
        for _ in range(10):
            place.add(rows(400))
    assert place.written == [f"x/part-{number:04}.parquet" for number in range(len(place.written))]
    assert len(place.written) > 2
    assert sum(pq.read_table(tmp_path / path).num_rows for path in place.written) == place.rows == 4_000


def test_an_error_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing, "_GROUP_BYTES", 1_000)
    monkeypatch.setattr(landing, "_FILE_BYTES", 1)

    def fail() -> None:
        with Landing(LocalFiles(tmp_path), "x/part", SCHEMA) as place:
            place.add(rows(400))
            assert len(place.written) == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_no_rows_give_one_file(tmp_path: Path) -> None:
    with Landing(LocalFiles(tmp_path), "part", SCHEMA) as place:
        pass
    assert place.written == ["part-0000.parquet"]
    assert pq.read_table(tmp_path / "part-0000.parquet").schema.names == ["a"]


def test_types() -> None:
    assert to_arrow_type("decimal(38,18)") == pa.decimal128(38, 18)
    assert to_arrow_type("timestamp") == pa.timestamp("us", tz="UTC")
