"""Which files a Delta table has, which its log names as removed, and what is removed: on real tables of delta-rs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.storage_servers import BUCKET

from builders import clean_log
from penstock.errors import ConcurrentRunError, StorageError
from penstock.lake.delta_log import DamagedLogError
from penstock.lake.leases import Terms, hold_exclusive
from penstock.lake.log_facts import find_sidecars, read_facts, read_state
from penstock.lake.log_names import find_checkpoints, find_commits, find_outdated
from penstock.lake.stored_paths import Vector, to_relative
from penstock.maintenance.tables.clones import check_no_clones, find_clones, find_tables
from penstock.maintenance.tables.removal import find_stored, remove_dead_files, wait_for_writers
from penstock.maintenance.tables.values import Caution
from penstock.maintenance.tables.watch import Watch
from penstock.model.names import DatasetName
from penstock.storage.files import open_files
from penstock.storage.local import LocalFiles

NAME = DatasetName("main", "people")
TABLE = NAME.path
HASTY = Caution(unknown_age=3600, settle=0, wait=0)


def write(
    storage: LocalFiles, *ids: int, mode: str = "append", partition: str | None = None, table: str = TABLE
) -> Path:
    folder = storage.root / table
    folder.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"id": pa.array(ids, pa.int64()), "city": [f"a b:{id_ % 2}/%" for id_ in ids]})
    write_deltalake(folder, rows, mode=mode, partition_by=[partition] if partition else None)  # type: ignore[call-overload]
    return folder


def data_files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts}


def remove(storage: LocalFiles, caution: Caution = HASTY, name: DatasetName = NAME) -> tuple[int, tuple[str, ...]]:
    with hold_exclusive(storage, name.path, "a test") as lease:
        removed = remove_dead_files(Watch(storage, name, lease, read_state(storage, name.path).version), caution)
    return removed.files, removed.young


@pytest.mark.parametrize("partition", [None, "city"])
@pytest.mark.parametrize("checkpoint", [None, "before", "after", "cleaned"])
def test_live_and_removed_files(storage: LocalFiles, partition: str | None, checkpoint: str | None) -> None:
    folder = write(storage, 1, 2, partition=partition)
    first = data_files(folder)
    if checkpoint == "before":
        DeltaTable(folder).create_checkpoint()
    write(storage, 3, 4, mode="overwrite", partition=partition)
    if checkpoint == "after":
        DeltaTable(folder).create_checkpoint()
    elif checkpoint == "cleaned":
        clean_log(folder, keep_from=1)
    facts = read_facts(storage, TABLE)
    assert facts.state.files == data_files(folder) - first
    assert facts.removed == first
    assert facts.state.version == 1
    assert facts.state.metadata["partitionColumns"] == ([partition] if partition else [])
    assert remove(storage) == (len(first), ())
    assert data_files(folder) == facts.state.files
    assert remove(storage) == (0, ()), "nothing is left to do"
    assert DeltaTable(folder).to_pyarrow_table()["id"].to_pylist() in ([3, 4], [4, 3])
    assert not [path for path in folder.rglob("*") if path.is_dir() and not any(path.iterdir()) and "=" in path.name]


def test_what_no_commit_names_goes_when_it_is_old(storage: LocalFiles) -> None:
    folder = write(storage, 1)
    names = [
        "part-new.parquet",
        "part-old.parquet",
        ".part-old.parquet.crc",
        "_change_data/cdc-old.parquet",
        "_checkpoints/x",
    ]
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")
        if "old" in name or "x" in name[-1]:
            os.utime(folder / name, (time.time() - 4000,) * 2)
    refused = pytest.raises(
        ConcurrentRunError, match="no commit names 1 files that were written in the last 60 seconds"
    )
    with refused, hold_exclusive(storage, TABLE, "a test") as lease:
        wait_for_writers(Watch(storage, NAME, lease, 0), Caution(settle=60, wait=0.3))
    assert remove(storage) == (3, ("part-new.parquet",))
    left = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert {name for name in names if name in left} == {"part-new.parquet", "_checkpoints/x"}
    assert not (folder / "_change_data").exists()


def test_a_foreign_commit_and_a_lost_lease_stop_the_removal(storage: LocalFiles) -> None:
    folder = write(storage, 1)
    write(storage, 2, mode="overwrite")
    before = data_files(folder)
    with hold_exclusive(storage, TABLE, "a test", Terms()) as lease:
        watch = Watch(storage, NAME, lease, 1)
        write(storage, 3)
        with pytest.raises(ConcurrentRunError, match="a program that holds no lease wrote version 2 meanwhile"):
            remove_dead_files(watch, HASTY)
        watch.version = 2
        lease._renewed -= 61
        with pytest.raises(ConcurrentRunError, match="the lease on main/people ended"):
            remove_dead_files(watch, HASTY)
    assert before <= data_files(folder)


def test_checkpoints_of_every_form_say_the_same(storage: LocalFiles) -> None:
    """One that delta-rs wrote, cut into parts, and as a V2 checkpoint with sidecars in both of its forms."""
    folder = write(storage, 1, 2)
    write(storage, 3, mode="overwrite")
    write(storage, 4)
    DeltaTable(folder).create_checkpoint()
    log = folder / "_delta_log"
    classic = log / f"{2:020d}.checkpoint.parquet"
    expected = read_facts(storage, TABLE)
    rows = pq.read_table(classic)
    classic.unlink()
    for part in (1, 2):
        half = rows.slice(0, 2) if part == 1 else rows.slice(2)
        pq.write_table(half, log / f"{2:020d}.checkpoint.{part:010d}.{2:010d}.parquet")
    assert [each.version for each in find_checkpoints(storage.names(f"{TABLE}/_delta_log"))] == [2]
    assert read_facts(storage, TABLE) == expected
    (log / f"{2:020d}.checkpoint.{2:010d}.{2:010d}.parquet").unlink()
    assert find_checkpoints(storage.names(f"{TABLE}/_delta_log")) == [], "one part is missing"
    (log / f"{2:020d}.checkpoint.{1:010d}.{2:010d}.parquet").unlink()
    (log / "_sidecars").mkdir()
    is_file = [
        row["add"] is not None or row["remove"] is not None for row in rows.select(["add", "remove"]).to_pylist()
    ]
    pq.write_table(rows.filter(pa.array(is_file)), log / "_sidecars" / "one.parquet")
    actions = [
        {name: value for name, value in row.items() if value is not None}
        for row in rows.filter(pa.array([not each for each in is_file])).drop_columns(["add", "remove"]).to_pylist()
    ]
    for action in actions:
        if "metaData" in action:
            action["metaData"] |= {key: dict(action["metaData"][key] or ()) for key in ("configuration",)}
            action["metaData"]["format"]["options"] = {}
    actions.append({"sidecar": {"path": "one.parquet", "sizeInBytes": 1, "modificationTime": 1}})
    name = f"{2:020d}.checkpoint.{'0' * 8}-0000-0000-0000-{'0' * 12}.json"
    (log / name).write_text("\n".join(json.dumps(action) for action in actions))
    for version in (0, 1):
        (log / f"{version:020d}.json").unlink()
    found = read_facts(storage, TABLE)
    assert (found.state, found.removed, found.commits) == (expected.state, expected.removed, (2,))
    assert find_sidecars(storage, TABLE, [name]) == ["one.parquet"]


def test_a_log_with_a_gap_or_a_damaged_file_is_an_error(storage: LocalFiles) -> None:
    folder = write(storage, 1)
    write(storage, 2)
    write(storage, 3)
    commit = folder / "_delta_log" / f"{1:020d}.json"
    content = commit.read_text()
    commit.write_text(content[:-9])
    with pytest.raises(DamagedLogError, match="cannot be read"):
        read_state(storage, TABLE)
    commit.unlink()
    with pytest.raises(DamagedLogError, match="gap after version -1"):
        read_state(storage, TABLE)
    with pytest.raises(StorageError, match="not a Delta table"):
        read_state(storage, "main/nothing")


def test_paths_of_the_log() -> None:
    assert to_relative("city=a%2520b/part-1.parquet") == "city=a%20b/part-1.parquet"
    assert to_relative("part%20one.parquet") == "part one.parquet"
    for outside in ("s3://bucket/x", "file:/tmp/x", "/tmp/x", "../x", "a/../../x"):
        assert to_relative(outside) is None, outside
    vector = Vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6)
    assert vector.file == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", (
        "the example of Delta's protocol"
    )
    assert Vector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None, 40, 6).file is None


def test_what_is_outdated_goes_oldest_first_and_hidden_files_before_their_subject() -> None:
    version = f"{7:020d}"
    kept = [f"{version}.json", f"{version}.crc", f"{version}.checkpoint.parquet", f"{8:020d}.json", "_last_checkpoint"]
    old = [
        f".{5:020d}.json.crc",
        f"{5:020d}.{7:020d}.compacted.json",
        f"{5:020d}.json",
        f".{6:020d}.checkpoint.parquet.crc",
        f"{6:020d}.checkpoint.{1:010d}.{1:010d}.parquet",
        f"{6:020d}.crc",
        f"{version}.checkpoint.{'0' * 8}-0000-0000-0000-{'0' * 12}.parquet",
    ]
    assert find_outdated(sorted([*old, *kept]), 7, [f"{version}.checkpoint.parquet"]) == old
    assert find_commits([*old, *kept]) == [5, 7, 8]


def test_shallow_clones_are_found_below_the_storage(storage: LocalFiles) -> None:
    folder = write(storage, 1)
    write(storage, 2, table="a/b/clone")
    write(storage, 3, table="main/other")
    assert sorted(find_tables(storage)) == ["a/b/clone", "main/other", TABLE]
    assert list(find_clones(storage, TABLE)) == []
    check_no_clones(storage, TABLE, read_state(storage, TABLE))
    commit = storage.root / "a/b/clone/_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in lines:
        if "add" in action:
            action["add"]["path"] = f"file:{folder}/{next(iter(data_files(folder)))}"
    commit.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(StorageError, match="a/b/clone is a shallow clone that reads files of main/people"):
        check_no_clones(storage, TABLE, read_state(storage, TABLE))
    with pytest.raises(StorageError, match="is a shallow clone: 1 of its files"):
        check_no_clones(storage, "a/b/clone", read_state(storage, "a/b/clone"))
    assert find_stored(storage, "a/b/clone", read_facts(storage, "a/b/clone")).removed == ()


def test_files_are_removed_from_an_object_store(
    s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable, value in s3_environment.items():
        monkeypatch.setenv(variable, value)
    files = open_files(f"s3://{BUCKET}/removal/{tmp_path.name}")
    address = f"{files.uri}/{TABLE}"
    for id_ in (1, 2):
        rows = pa.table({"id": [id_], "city": ["a b/c"]})
        write_deltalake(address, rows, mode="overwrite", partition_by=["city"], storage_options=s3_environment)
    facts = read_facts(files, TABLE)
    assert len(facts.removed) == len(facts.state.files) == 1
    with hold_exclusive(files, TABLE, "a test") as lease:
        removed = remove_dead_files(Watch(files, NAME, lease, 1), HASTY)
    assert (removed.files, removed.young) == (1, ())
    left = {file.path[len(TABLE) + 1 :] for file in files.walk(TABLE)}
    assert {path for path in left if not path.startswith("_")} == facts.state.files
    assert DeltaTable(address, storage_options=s3_environment).to_pyarrow_table()["id"].to_pylist() == [2]
