"""Commits of partitions that run side by side: what a table stands for, whatever order they come in. Real Delta logs, no JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import write_table
from penstock.kinds.derived.progress import CODEC, DerivedProgress, PartitionProgress
from penstock.lake.delta_log import FENCED, to_application
from penstock.lake.manifests import create_manifest, read_manifest
from penstock.lake.partition_tables import to_condition
from penstock.lake.progress import read_table_state
from penstock.model.names import DatasetName
from penstock.model.progress import InputMark, Manifest, TableState
from penstock.storage.local import LocalFiles

NAME = DatasetName("main", "daily")


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path)


def begin(files: LocalFiles, as_of: int, current: str, added: str, mark: int = 5) -> int:
    parts = PartitionProgress("date", tuple(current.split()), tuple(added.split()))
    payload = CODEC.encode(DerivedProgress({"main.sales": InputMark(mark, 0)}, "d", "s", None, parts))
    manifest = Manifest(str(NAME), 0, None, kind=CODEC.kind, payload=payload, as_of=as_of)
    return create_manifest(files, NAME, manifest).number


def commit(files: LocalFiles, number: int) -> int:
    return write_table(files.root / NAME.path, number, name=to_application(number))


def state(files: LocalFiles) -> TableState[DerivedProgress]:
    return read_table_state(files, NAME, CODEC)


def current(files: LocalFiles) -> set[str]:
    found = state(files)
    assert found.damage is None, found.damage
    assert found.payload is not None
    assert found.payload.partitions is not None
    return set(found.payload.partitions.current)


def test_a_manifest_keeps_what_it_knows_of(files: LocalFiles) -> None:
    number = begin(files, -1, "a", "a")
    assert read_manifest(files, NAME, number).as_of == -1
    commit(files, number)
    assert (current(files), state(files).number) == ({"a"}, number)


def test_the_later_number_may_commit_first(files: LocalFiles) -> None:
    commit(files, begin(files, -1, "a", "a"))
    second, third = begin(files, 0, "a b", "b"), begin(files, 0, "a c", "c")
    commit(files, third)
    assert current(files) == {"a", "c"}
    commit(files, second)
    assert current(files) == {"a", "b", "c"}
    assert state(files).progress is not None
    commit(files, begin(files, 2, "a b c d", "d"))
    assert current(files) == {"a", "b", "c", "d"}
    assert not state(files).progress.chain[1:]  # type: ignore[union-attr]


def test_what_never_committed_counts_for_nothing(files: LocalFiles) -> None:
    commit(files, begin(files, -1, "a", "a"))
    begin(files, 0, "a b", "b")
    assert current(files) == {"a"}


def test_both_hold_for_the_older_mark(files: LocalFiles) -> None:
    commit(files, begin(files, -1, "a", "a", mark=3))
    older, newer = begin(files, 0, "a b", "b", mark=4), begin(files, 0, "c", "c", mark=9)
    commit(files, newer)
    commit(files, older)
    payload = state(files).payload
    assert payload is not None
    assert (payload.inputs["main.sales"].version, current(files)) == (4, {"a", "b", "c"})


def test_a_foreign_write_between_them_is_seen(files: LocalFiles) -> None:
    commit(files, begin(files, -1, "a", "a"))
    number = begin(files, 0, "a b", "b")
    write_table(files.root / NAME.path)
    commit(files, number)
    found = state(files)
    assert found.damage is not None
    assert (found.damage.code, found.payload) == ("foreign_write", None)


def test_a_fence_is_no_load(files: LocalFiles) -> None:
    number = begin(files, -1, "a", "a")
    commit(files, number)
    write_table(files.root / NAME.path, FENCED, rows=(), name=to_application(7))
    assert (current(files), state(files).number) == ({"a"}, number)


def test_many_commits_cost_no_more_than_few(files: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in range(-1, 30):
        commit(files, begin(files, version, "a", "a"))
    read: list[str] = []
    original = LocalFiles.read
    monkeypatch.setattr(LocalFiles, "read", lambda self, path: read.append(path) or original(self, path))
    state(files)
    assert len(read) <= 6


def test_the_condition_of_partitions() -> None:
    days = ["2024-01-01", "2024-01-02", "2024-01-04"]
    assert to_condition("date", "date", days) == (
        "(`date` >= DATE '2024-01-01' AND `date` <= DATE '2024-01-02') OR "
        "(`date` >= DATE '2024-01-04' AND `date` <= DATE '2024-01-04')"
    )
    assert to_condition("a`b", "string", ["it's"]) == "`a``b` IN ('it\\'s')"
    assert to_condition("n", "int", ["5"]) == "`n` IN (CAST('5' AS int))"
