"""Delta tables: what a deleted row leaves in commits, checkpoints, statistics, checksums and names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.scanning import check_readable, found_in, needle, scan

from penstock.maintenance.scan.needles import Survivors

ADDRESS = "aaa.a.very.long.address.of.someone.with.many.names@mail.example.org"
"""The smallest of the column, and longer than statistics keep."""
PHONE = "+49 151 00000001"
COUNT = 50


def make_table(folder: Path, **options: Any) -> DeltaTable:
    """A table with one person to erase: id 42."""
    rows = {
        "id": pa.array([42, *range(100, 100 + COUNT)], pa.int64()),
        "email": [ADDRESS, *(f"someone{number}@example.org" for number in range(COUNT))],
        "phone": [PHONE, *(f"+49 151 1{number:07}" for number in range(COUNT))],
        "city": ["Berlin"] * (COUNT + 1),
    }
    write_deltalake(str(folder), pa.table(rows), **options)
    return DeltaTable(str(folder))


NEEDLES = (
    needle("42", 42, columns=("id",)),
    needle(ADDRESS, ADDRESS, columns=("email",)),
    needle(PHONE, PHONE, columns=("phone",)),
)


def files_of(folder: Path, number: int) -> set[str]:
    return {file for file, found in found_in(scan(folder, *NEEDLES)) if found == number}


def test_a_row_is_found_in_its_file_and_in_the_statistics(tmp_path: Path) -> None:
    make_table(tmp_path)
    result = scan(tmp_path, *NEEDLES)
    check_readable(result)
    commit = "_delta_log/00000000000000000000.json"
    (data,) = (file.name for file in tmp_path.glob("*.parquet"))
    assert files_of(tmp_path, 0) == {commit, data}
    assert files_of(tmp_path, 1) == {commit, data}
    assert files_of(tmp_path, 2) == {commit, data}


def test_a_delete_and_a_vacuum_leave_the_person_in_the_log(tmp_path: Path) -> None:
    """The literal of the predicate, and statistics of the file that is gone: the reason why the log is truncated."""
    table = make_table(tmp_path)
    table.delete(f"email = '{ADDRESS}'")
    DeltaTable(str(tmp_path)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    found = scan(tmp_path, *NEEDLES)
    assert {file.split("/")[0] for file, _ in found_in(found)} == {"_delta_log"}
    assert files_of(tmp_path, 1) == {f"_delta_log/{version:020}.json" for version in (0, 1)}


def test_a_truncated_statistic_is_found_unless_a_survivor_explains_it(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    log = tmp_path / "_delta_log" / "00000000000000000000.json"
    text = log.read_text()
    assert ADDRESS[:31] in text
    log.write_text(text.replace(ADDRESS, ADDRESS[:32]))
    for file in table.file_uris():
        Path(file).unlink()
    hits = [hit for hit in scan(tmp_path, *NEEDLES).hits if hit.needle == 1]
    assert [(hit.file, hit.form) for hit in hits] == [("_delta_log/00000000000000000000.json", "truncated statistic")]
    assert "statistics" in hits[0].where
    explained = scan(tmp_path, *NEEDLES, survivors=Survivors(beginnings=frozenset({ADDRESS[:40]})))
    assert [hit for hit in explained.hits if hit.needle == 1] == []


def test_a_truncated_maximum_is_found(tmp_path: Path) -> None:
    statistics = {"numRecords": 1, "maxValues": {"who": {"email": ADDRESS[:32] + "\U0010ffff"}}}
    commit = {"add": {"path": "x.parquet", "stats": json.dumps(statistics)}}
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    (folder / "00000000000000000000.json").write_text(json.dumps(commit) + "\n")
    assert [hit.form for hit in scan(tmp_path, ADDRESS).hits] == ["truncated statistic"]
    elsewhere = {"note": ADDRESS[:32]}
    (folder / "00000000000000000000.json").write_text(json.dumps(elsewhere) + "\n")
    assert scan(tmp_path, ADDRESS).hits == (), "a beginning counts only in a statistic"


def test_a_checkpoint_is_searched(tmp_path: Path) -> None:
    make_table(tmp_path, partition_by=["city"]).create_checkpoint()
    for file in [*tmp_path.glob("city=*/*.parquet"), *tmp_path.glob("_delta_log/*.json")]:
        file.unlink()
    result = scan(tmp_path, *NEEDLES)
    check_readable(result)
    (name,) = {hit.file for hit in result.hits}
    assert name.endswith(".checkpoint.parquet")
    assert {hit.needle for hit in result.hits} == {0, 1, 2}


def test_parsed_statistics_of_a_checkpoint_are_searched(tmp_path: Path) -> None:
    parsed = {"minValues": {"id": 42, "email": ADDRESS[:32]}, "maxValues": {"id": 99, "email": "z"}}
    partition = pa.array([[("phone", PHONE), ("id", "42")]], pa.map_(pa.string(), pa.string()))
    add = pa.StructArray.from_arrays([pa.array([parsed]), partition], ["stats_parsed", "partitionValues"])
    (tmp_path / "_delta_log").mkdir()
    file = tmp_path / "_delta_log" / "00000000000000000003.checkpoint.parquet"
    pq.write_table(pa.table({"add": add}), file)
    result = scan(tmp_path, *NEEDLES)
    wheres = {(hit.needle, hit.where.rsplit("column ", 1)[1]) for hit in result.hits}
    assert {
        (0, "add.stats_parsed.minvalues.id"),
        (0, "add.partitionvalues.id"),
        (1, "add.stats_parsed.minvalues.email"),
        (2, "add.partitionvalues.value"),
    } <= wheres


@pytest.mark.parametrize(
    "name", ["00000000000000000007.crc", "_last_checkpoint", "00000000000000000007.compacted.json"]
)
def test_other_files_of_the_log_are_searched(tmp_path: Path, name: str) -> None:
    statistics = {"minValues": {"id": 42, "email": ADDRESS[:32]}, "maxValues": {"phone": PHONE}}
    content = {"allFiles": [{"path": "x.parquet", "stats": json.dumps(statistics)}]}
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / name).write_text(json.dumps(content))
    result = scan(tmp_path, *NEEDLES)
    assert {hit.needle for hit in result.hits} == {0, 1, 2}
    check_readable(result)


def test_partition_values_are_found_in_folders_and_in_the_log(tmp_path: Path) -> None:
    table = make_table(tmp_path, partition_by=["phone"])
    assert any("%" in file.name for file in tmp_path.iterdir())
    result = scan(tmp_path, *NEEDLES)
    wheres = {hit.where for hit in result.hits if hit.needle == 2}
    assert "folder name" in wheres
    assert all("151" not in hit.file for hit in result.hits if "needle" in hit.file)
    table.delete("id = 42")
    DeltaTable(str(tmp_path)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    left = [(hit.file, hit.where) for hit in scan(tmp_path, *NEEDLES).hits]
    assert ("phone=[needle 2]", "folder name") in left, "a vacuum leaves the empty folder"
    assert {file.split("/")[0] for file, _ in left} == {"_delta_log", "phone=[needle 2]"}


def test_the_change_feed_is_searched(tmp_path: Path) -> None:
    table = make_table(tmp_path, configuration={"delta.enableChangeDataFeed": "true"})
    table.delete("id = 42")
    assert any(file.startswith("_change_data/") for file, _ in found_in(scan(tmp_path, *NEEDLES)))


def mapped_schema(physical: str) -> str:
    metadata = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": physical}
    inner = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": metadata}]}
    outer = {"delta.columnMapping.physicalName": "col-0"}
    return json.dumps(
        {"type": "struct", "fields": [{"name": "customer", "type": inner, "nullable": True, "metadata": outer}]}
    )


@pytest.mark.parametrize("log", ["commit", "checkpoint"])
def test_a_column_that_files_call_by_another_name_is_compared(tmp_path: Path, log: str) -> None:
    """Column mapping: after a rename, files and statistics keep the name that they had."""
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"col-0": [{"col-7": 42}]}), tmp_path / "t" / "part-0.parquet")
    pq.write_table(pa.table({"col-0": [{"col-7": 42}]}), tmp_path / "foreign.parquet")
    folder = tmp_path / "t" / "_delta_log"
    if log == "commit":
        action = {"metaData": {"id": "1", "schemaString": mapped_schema("col-7")}}
        (folder / "00000000000000000000.json").write_text(json.dumps(action) + "\n")
    else:
        rows = pa.table({"metaData": [None, {"id": "1", "schemaString": mapped_schema("col-7")}]})
        pq.write_table(rows, folder / "00000000000000000000.checkpoint.parquet")
    for column in ("customer.id", "id"):
        assert found_in(scan(tmp_path, needle("42", 42, columns=(column,)))) == {("t/part-0.parquet", 0)}
