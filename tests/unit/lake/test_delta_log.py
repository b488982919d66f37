"""The head of a Delta log, read as files."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from builders import clean_log, compact_table, write_table
from penstock.lake.delta_log import DamagedLogError, find_version, iter_commits
from penstock.lake.marks import find_added_files
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles

TABLE = "main/orders"
NAME = DatasetName("main", "orders")


def test_no_table_has_no_version_and_no_commits(storage: LocalFiles) -> None:
    assert find_version(storage, TABLE) is None
    assert list(iter_commits(storage, TABLE)) == []


def test_a_folder_without_a_log_is_no_table(storage: LocalFiles) -> None:
    (storage.root / TABLE / "_delta_log").mkdir(parents=True)
    (storage.root / TABLE / "part-0.parquet").touch()
    assert find_version(storage, TABLE) is None


def test_commits_come_newest_first_with_their_numbers(storage: LocalFiles) -> None:
    for number in (3, None, 9):
        write_table(storage.root / TABLE, number)
    commits = list(iter_commits(storage, TABLE))
    assert [(commit.version, commit.number) for commit in commits] == [(2, 9), (1, None), (0, 3)]
    assert find_version(storage, TABLE) == 2
    assert [commit.schema_json is not None for commit in commits] == [False, False, True]
    assert all(commit.operation == "WRITE" and commit.timestamp_ms > 0 for commit in commits)
    assert commits[0].metrics["num_added_rows"] == "1"


def test_a_number_of_another_application_is_not_ours(storage: LocalFiles) -> None:
    write_table(storage.root / TABLE, 7, name="other")
    assert next(iter_commits(storage, TABLE)).number is None


def test_the_number_is_that_of_our_application_among_several(storage: LocalFiles) -> None:
    write_table(storage.root / TABLE, 1)
    log = storage.root / TABLE / "_delta_log" / f"{0:020d}.json"
    log.write_text(json.dumps({"txn": {"appId": "other", "version": 99}}) + "\n\n" + log.read_text())
    assert next(iter_commits(storage, TABLE)).number == 1


def _append(storage: LocalFiles) -> None:
    write_table(storage.root / TABLE)


def _append_nothing(storage: LocalFiles) -> None:
    write_table(storage.root / TABLE, rows=())


def _delete(storage: LocalFiles) -> None:
    DeltaTable(storage.root / TABLE).delete("id = 1")


def _compact(storage: LocalFiles) -> None:
    compact_table(storage.root / TABLE)


def _restore(storage: LocalFiles) -> None:
    DeltaTable(storage.root / TABLE).restore(0)


def _set_property(storage: LocalFiles) -> None:
    DeltaTable(storage.root / TABLE).alter.set_table_properties({"delta.appendOnly": "false"})


@pytest.mark.parametrize(
    ("foreign", "changes_rows"),
    [
        (_append, True),
        (_append_nothing, False),
        (_delete, True),
        (_compact, False),
        (_restore, True),
        (_set_property, False),
    ],
)
def test_a_foreign_commit_tells_whether_it_changed_rows(foreign, changes_rows: bool, storage: LocalFiles) -> None:
    write_table(storage.root / TABLE, 1)
    write_table(storage.root / TABLE, 2, rows=(1, 2))
    foreign(storage)
    newest = next(iter_commits(storage, TABLE))
    assert (newest.version, newest.number, newest.changes_rows) == (2, None, changes_rows)


def test_commits_older_than_a_clean_up_are_not_needed(storage: LocalFiles) -> None:
    for number in range(1, 6):
        write_table(storage.root / TABLE, number)
    clean_log(storage.root / TABLE, keep_from=3)
    assert [commit.version for commit in iter_commits(storage, TABLE)] == [4, 3]
    assert find_version(storage, TABLE) == 4


def test_a_checkpoint_alone_still_tells_the_version(storage: LocalFiles) -> None:
    for number in (1, 2):
        write_table(storage.root / TABLE, number)
    clean_log(storage.root / TABLE, keep_from=99)
    assert find_version(storage, TABLE) == 1
    assert list(iter_commits(storage, TABLE)) == []


def test_a_clean_up_while_commits_are_read_ends_the_reading(storage: LocalFiles) -> None:
    for number in (1, 2, 3):
        write_table(storage.root / TABLE, number)
    commits = iter_commits(storage, TABLE)
    assert next(commits).version == 2
    clean_log(storage.root / TABLE, keep_from=2)
    assert list(commits) == []


@pytest.mark.parametrize("content", [b"", b'{"add": {"path"', b"5", b'{"txn": 1}', b'{"txn": {}}', b"\xff\xfe"])
def test_a_commit_file_that_cannot_be_read_is_named(content: bytes, storage: LocalFiles) -> None:
    write_table(storage.root / TABLE, 1)
    (storage.root / TABLE / "_delta_log" / f"{0:020d}.json").write_bytes(content)
    with pytest.raises(DamagedLogError, match="version 0 of main/orders"):
        next(iter_commits(storage, TABLE))


def test_files_that_came_since_a_version(storage: LocalFiles) -> None:
    write_table(storage.root / TABLE, 1)
    known = next(iter_commits(storage, TABLE))
    write_table(storage.root / TABLE, 2)
    assert find_added_files(storage, NAME, known.version, known.timestamp_ms) == _added_by(storage, 1)
    newest = next(iter_commits(storage, TABLE))
    assert find_added_files(storage, NAME, newest.version, newest.timestamp_ms) == []


def _added_by(storage: LocalFiles, version: int) -> list[str]:
    lines = (storage.root / TABLE / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [action["add"]["path"] for action in map(json.loads, lines) if "add" in action]


def test_nobody_can_tell_what_came_since_when_rows_went_or_the_table_is_another(storage: LocalFiles) -> None:
    write_table(storage.root / TABLE, 1)
    known = next(iter_commits(storage, TABLE))
    assert find_added_files(storage, NAME, known.version, known.timestamp_ms - 1) is None, "recreated in its place"
    assert find_added_files(storage, NAME, known.version + 5, known.timestamp_ms) is None, "made anew, and younger"
    write_table(storage.root / TABLE, 2)
    DeltaTable(str(storage.root / TABLE)).delete()
    assert find_added_files(storage, NAME, known.version, known.timestamp_ms) is None


def test_rows_of_a_new_file_that_was_compacted_already_are_not_passed_over(storage: LocalFiles) -> None:
    write_table(storage.root / TABLE, 1)
    known = next(iter_commits(storage, TABLE))
    write_table(storage.root / TABLE, 2)
    DeltaTable(storage.root / TABLE).optimize.compact()
    assert find_added_files(storage, NAME, known.version, known.timestamp_ms) is None
    compacted = next(iter_commits(storage, TABLE))
    write_table(storage.root / TABLE, 3)
    assert find_added_files(storage, NAME, compacted.version, compacted.timestamp_ms) == _added_by(storage, 3)
