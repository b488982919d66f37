"""A damaged Delta log: found without a JVM, and set aside while its table is written again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from builders import NAME, begin, clean_log, consumed, load, write_table
from penstock.errors import StorageError
from penstock.kinds.staging.progress import CODEC
from penstock.lake import log_repair
from penstock.lake.delta_log import check_commits
from penstock.lake.log_repair import has_damaged_log, repaired_log
from penstock.lake.progress import read_table_state
from penstock.storage.local import LocalFiles


def _commit(storage: LocalFiles, version: int, ending: str = "json") -> Path:
    return storage.root / NAME.path / "_delta_log" / f"{version:020d}.{ending}"


def _lose_newest_but_its_checksum(storage: LocalFiles) -> None:
    _commit(storage, 2).rename(_commit(storage, 2, "crc"))


def _lose_all_but_a_checksum(storage: LocalFiles) -> None:
    for version in range(3):
        _commit(storage, version).unlink()
    _commit(storage, 2, "crc").touch()


def _lose_a_part_of_the_checkpoint(storage: LocalFiles) -> None:
    _commit(storage, 0).rename(_commit(storage, 1, "checkpoint.0000000001.0000000002.parquet"))


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda s: _commit(s, 0).unlink(), "version 0 of staging/orders is missing"),
        (lambda s: _commit(s, 1).unlink(), "version 1 of staging/orders is missing"),
        (_lose_newest_but_its_checksum, "version 2 of staging/orders is missing"),
        (_lose_all_but_a_checksum, "version 0 of staging/orders is missing"),
        (lambda s: _commit(s, 2).write_text("{"), "version 2 of staging/orders cannot be read"),
        (_lose_a_part_of_the_checkpoint, "version 0 of staging/orders is missing"),
    ],
    ids=["first", "middle", "newest", "all", "garbled", "part of a checkpoint"],
)
def test_a_log_that_delta_could_not_read_is_damage(
    damage: Callable[[LocalFiles], object], text: str, storage: LocalFiles
) -> None:
    for name in "abc":
        load(storage, files=(consumed(name),))
    damage(storage)
    state = read_table_state(storage, NAME, CODEC)
    assert state.exists
    assert state.damage is not None
    assert (state.damage.code, state.progress) == ("log_damaged", None)
    assert text in state.damage.text
    assert state.last_known is not None
    assert list(state.last_known.files) == ["c"], "so that a rebuild loses no rows unnoticed"


def test_what_a_checkpoint_replaces_is_not_missing(storage: LocalFiles) -> None:
    for _ in range(3):
        load(storage)
    clean_log(storage.root / NAME.path, keep_from=2)
    load(storage)
    _commit(storage, 1, "crc").touch()
    state = read_table_state(storage, NAME, CODEC)
    assert (state.version, state.damage) == (3, None)
    check_commits(storage, NAME.path)


@pytest.mark.parametrize("content", ["", "{", '{"commitInfo": {}}'])
def test_an_older_commit_is_checked_before_there_is_work(content: str, storage: LocalFiles) -> None:
    """Planning reads the newest commits only: nothing else is needed to see that there is nothing to do."""
    for _ in range(2):
        load(storage, complete=True)
    check_commits(storage, NAME.path)
    _commit(storage, 0).write_text(content)
    assert read_table_state(storage, NAME, CODEC).damage is None
    with pytest.raises(StorageError, match="version 0 of staging/orders"):
        check_commits(storage, NAME.path)


@pytest.mark.parametrize("number", [10**18, 10**19])
def test_a_number_that_no_load_can_have_is_not_one(number: int, storage: LocalFiles) -> None:
    """Delta's numbers have 63 bits: a load with a higher one could not commit, and neither could any after it."""
    load(storage)
    _put_manifest(storage, number)
    assert begin(storage).number == 2


@pytest.mark.parametrize("number", [10**18 - 1, 10**18 - 2])
def test_no_load_gets_a_number_that_is_not_one(number: int, storage: LocalFiles) -> None:
    """Else it would not find its own manifest, and wait for it without end."""
    load(storage)
    _put_manifest(storage, number)
    with pytest.raises(StorageError, match="no load number left") as caught:  # noqa: PT012 - the last may be given
        begin(storage)
        begin(storage)
    assert f"{10**18 - 1:020d}.json" in str(caught.value.hint)


def _put_manifest(storage: LocalFiles, number: int) -> None:
    (storage.root / NAME.path / "_penstock" / f"{number:020d}.json").write_text("{}")


def test_a_commit_with_a_number_that_no_load_has_is_damage(storage: LocalFiles) -> None:
    load(storage)
    write_table(storage.root / NAME.path, 2**61)
    damage = read_table_state(storage, NAME, CODEC).damage
    assert damage is not None
    assert damage.code == "log_damaged"
    assert has_damaged_log(storage, NAME.path)


def test_a_damaged_log_is_set_aside_and_removed_once_the_table_is_written(storage: LocalFiles) -> None:
    table = storage.root / NAME.path
    for _ in range(2):
        load(storage)
    _commit(storage, 0).write_text("{")
    with repaired_log(storage, NAME.path):
        write_table(table, 3, rows=(7, 8))
    assert DeltaTable(table).version() == 0
    assert not [file for file in (table / "_penstock").iterdir() if file.is_dir()]


def test_a_damaged_log_comes_back_when_the_table_cannot_be_written(storage: LocalFiles) -> None:
    load(storage)
    _commit(storage, 0).write_text("{")
    with pytest.raises(FileExistsError), repaired_log(storage, NAME.path):  # noqa: PT012
        storage.create(f"{NAME.path}/_delta_log/half", b"")
        storage.create(f"{NAME.path}/_delta_log/half", b"")
    assert _commit(storage, 0).read_text() == "{"


def test_what_a_killed_process_set_aside_is_removed_by_the_next_one(
    storage: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = storage.root / NAME.path
    load(storage)
    _commit(storage, 0).write_text("{")

    def kill(*_: str) -> None:
        raise SystemExit

    monkeypatch.setattr(log_repair, "fault_point", kill)
    with pytest.raises(SystemExit), repaired_log(storage, NAME.path):
        pass
    assert not read_table_state(storage, NAME, CODEC).exists
    with repaired_log(storage, NAME.path):
        write_table(table, 2)
    assert not [file for file in (table / "_penstock").iterdir() if file.is_dir()]


def test_a_log_without_damage_stays_where_it_is(storage: LocalFiles) -> None:
    load(storage)
    with repaired_log(storage, NAME.path):
        assert _commit(storage, 0).exists()
