"""What Spark reads beside the commits of a log has to agree with them: the plan looks at it before it promises anything."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from builders import NAME, clean_log, sums_of, write_table
from penstock.lake.data_files import Look, find_damage, find_table_damage
from penstock.lake.delta_log import DamagedLogError, iter_commits
from penstock.lake.log_checks import check_log, find_false_pointer
from penstock.lake.log_repair import has_damaged_log
from penstock.storage.local import LocalFiles

NO_COLUMNS = {
    "id": "x",
    "format": {"provider": "parquet"},
    "schemaString": '{"type":"struct","fields":[]}',
    "partitionColumns": [],
    "configuration": {},
}


@pytest.fixture
def log(storage: LocalFiles) -> Path:
    for number in (1, 2, 3):
        write_table(storage.root / NAME.path, number)
    log = storage.root / NAME.path / "_delta_log"
    first = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    stated = {key: value for action in first for key, value in action.items()}
    checksum = {"protocol": stated["protocol"], "metadata": stated["metaData"], "numFiles": 3}
    (log / f"{2:020d}.crc").write_text(json.dumps(checksum))
    return log


def _state(log: Path, field: str, **values: Any) -> None:
    """Edit what the checksum file says."""
    file = log / f"{2:020d}.crc"
    stated = json.loads(file.read_text())
    file.write_text(json.dumps({**stated, field: {**stated[field], **values}}))


def _state_count(log: Path, **counts: int) -> None:
    """Let the checksum file state other counts."""
    file = log / f"{2:020d}.crc"
    file.write_text(json.dumps({**json.loads(file.read_text()), **counts}))


def _add(log: Path, action: Any) -> None:
    """Add a line to the newest commit."""
    with (log / f"{2:020d}.json").open("a") as file:
        file.write("\n" + json.dumps(action))


def _copy_to_checkpoint(log: Path) -> None:
    shutil.copy(next(log.parent.glob("*.parquet")), log / f"{2:020d}.checkpoint.parquet")


def _compact(log: Path, first: int, last: int, *commits: int) -> Path:
    file = log / f"{first:020d}.{last:020d}.compacted.json"
    file.write_text("\n".join((log / f"{commit:020d}.json").read_text() for commit in commits))
    return file


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda log: _state(log, "protocol", minReaderVersion=3, readerFeatures=["fancy"]), f"{2:020d}.crc"),
        (lambda log: _state(log, "metadata", id="other"), f"{2:020d}.crc"),
        (lambda log: _state(log, "metadata", schemaString=NO_COLUMNS["schemaString"]), f"{2:020d}.crc"),
        (lambda log: _state_count(log, numFiles=2), "a commit was replaced"),
        (lambda log: _state_count(log, tableSizeBytes=1), "a commit was replaced"),
        (lambda log: shutil.copy(log / f"{2:020d}.json", log / f"{1:020d}.json"), "has load 3 twice"),
        (lambda log: shutil.copy(log / f"{0:020d}.json", log / f"{1:020d}.json"), "has load 1 twice"),
        (lambda log: _add(log, {"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}), "needs a newer Delta"),
        (lambda log: _add(log, {"metaData": NO_COLUMNS}), "does not say which columns"),
        (_copy_to_checkpoint, "does not say which columns"),
        (lambda log: _compact(log, 0, 2, 0), "compacted.json"),
        (lambda log: _compact(log, 1, 2, 1), "compacted.json"),
        (lambda log: _compact(log, 0, 1).write_text("garbage"), "compacted.json"),
        (lambda log: _compact(log, 0, 1).write_text("{}\n[1]"), "compacted.json"),
    ],
    ids=[
        "features",
        "id",
        "schema",
        "files",
        "bytes",
        "copy",
        "older",
        "newer",
        "columns",
        "checkpoint",
        "first",
        "some",
        "garbage",
        "list",
    ],
)
def test_what_spark_could_not_open_is_damage(
    damage: Callable[[Path], object], text: str, log: Path, storage: LocalFiles
) -> None:
    assert find_damage(storage, NAME, Look.FULL) is None
    damage(log)
    found = find_damage(storage, NAME, Look.FULL)
    assert found is not None
    assert (found.code, text in found.text) == ("log_damaged", True)
    assert has_damaged_log(storage, NAME.path), "so it is written again with a new log"
    if damage is not _copy_to_checkpoint:  # an idle table with a checkpoint is not looked at as closely
        assert find_damage(storage, NAME, Look.BRIEF) == found


@pytest.mark.parametrize(
    "change",
    [
        lambda log: (log / f"{2:020d}.crc").write_text("garbage"),
        lambda log: (log / f"{2:020d}.crc").write_text("[]"),
        lambda log: (log / f"{1:020d}.crc").write_text('{"protocol": {}, "metadata": {}}'),
        lambda log: _state(log, "metadata", createdTime=0),
        lambda log: _compact(log, 0, 2, 0, 1, 2),
        lambda log: _compact(log, 1, 2, 1, 2),
        lambda log: _compact(log, 2, 3, 1),
        lambda log: clean_log(log.parent, keep_from=2),
        lambda log: DeltaTable(log.parent).optimize.compact(),
    ],
    ids=["garbage", "list", "older", "time", "all", "some", "beyond", "checkpoint", "optimize"],
)
def test_what_spark_does_not_mind_is_none(change: Callable[[Path], object], log: Path, storage: LocalFiles) -> None:
    change(log)
    assert find_damage(storage, NAME, Look.FULL) is None
    assert not has_damaged_log(storage, NAME.path)


def test_what_stands_before_a_checkpoint_is_not_read(log: Path, storage: LocalFiles) -> None:
    DeltaTable(log.parent).create_checkpoint()
    _compact(log, 0, 2, 0)
    assert find_damage(storage, NAME, Look.FULL) is None


def test_no_table_has_nothing_to_check(storage: LocalFiles) -> None:
    assert check_log(storage, NAME.path) is None


def test_the_error_says_that_the_file_may_go(log: Path, storage: LocalFiles) -> None:
    _state(log, "metadata", id="other")
    with pytest.raises(DamagedLogError) as caught:
        check_log(storage, NAME.path)
    assert str(caught.value.hint).startswith("remove that file")


@pytest.mark.parametrize(
    "file",
    [
        {"path": "file:///nonexist/x.parquet"},
        {"path": "../../../etc/passwd"},
        {"path": "a", "deletionVector": {"storageType": "p", "pathOrInlineDv": "s3://b/v"}},
    ],
    ids=["absolute", "above", "vector"],
)
@pytest.mark.parametrize("look", Look)
def test_a_table_of_penstock_has_no_files_elsewhere(
    file: dict[str, Any], look: Look, log: Path, storage: LocalFiles
) -> None:
    """Else it would count as a clone: its rows would be gone, and the plan would call it up to date."""
    if "deletionVector" in file:
        file = {**file, "deletionVector": {**file["deletionVector"], "sizeInBytes": 1, "cardinality": 1}}
    _add(log, {"add": {"size": 1, "partitionValues": {}, **file}})
    _state_count(log, numFiles=4)
    found = find_damage(storage, NAME, look)
    assert found is not None
    assert (found.code, "not in the table's folder" in found.text) == ("data_damaged", True)
    other = find_table_damage(storage, NAME.path, is_ours=False)
    assert other is None or "is missing" in other.text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"version": 1}', "version 1"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"version": []}', "names no version"),
    ],
)
def test_a_pointer_to_no_checkpoint_is_named(content: str, says: str, log: Path, storage: LocalFiles) -> None:
    assert find_false_pointer(storage, NAME.path) is None
    (log / "_last_checkpoint").write_text(content)
    assert says in (find_false_pointer(storage, NAME.path) or "")
    DeltaTable(log.parent).create_checkpoint()
    assert find_false_pointer(storage, NAME.path) is None


@pytest.mark.parametrize(
    ("operation", "kinds", "changes_rows"),
    [
        ("WRITE", ("add",), True),
        ("STREAMING UPDATE", ("add",), True),
        ("WRITE", ("add", "remove"), False),
        ("OPTIMIZE", ("add", "remove"), False),
        ("ROW TRACKING BACKFILL", ("add",), False),
        ("WRITE", (), False),
    ],
)
def test_an_append_changes_rows_whatever_its_writer_says(
    operation: str, kinds: tuple[str, ...], changes_rows: bool, log: Path, storage: LocalFiles
) -> None:
    actions = [{kind: {"path": kind, "size": 1, "dataChange": False}} for kind in kinds]
    lines = [{"commitInfo": {"operation": operation, "timestamp": 1}}, *actions]
    (log / f"{3:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    assert next(iter_commits(storage, NAME.path)).changes_rows is changes_rows


def test_a_commit_that_hadoop_would_not_read_is_damage_before_a_write(log: Path, storage: LocalFiles) -> None:
    """Its content is sound, and only Spark refuses it: a new log helps, if the sources have everything."""
    commit = log / f"{1:020d}.json"
    beside = commit.with_name(f".{commit.name}.crc")
    beside.write_bytes(sums_of(commit.read_bytes()))
    check_log(storage, NAME.path)
    commit.write_bytes(commit.read_bytes() + b"\n")
    assert find_damage(storage, NAME, Look.BRIEF) is None, "it costs as much as reading the log again"
    found = find_damage(storage, NAME, Look.FULL)
    assert found is not None
    assert (found.code, f"does not fit {beside.name}" in found.text) == ("log_damaged", True)
    assert has_damaged_log(storage, NAME.path)
    beside.unlink()
    assert find_damage(storage, NAME, Look.FULL) is None
