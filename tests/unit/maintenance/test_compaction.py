"""When maintenance is due: the decision, and the facts that it rests on, from real tables of delta-rs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.maintenance.compaction.decide import decide_maintenance
from penstock.maintenance.compaction.facts import note_checked, read_checked, read_table_facts, to_checked
from penstock.model.compaction import DAY, Policy, TableFacts, sum_up
from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName
from penstock.model.progress import TableState
from penstock.model.tombstones import Tombstone, TombstoneState
from penstock.storage.local import LocalFiles

NAME = DatasetName("main", "people")
NOW = 1_800_000_000 * 10**9
QUIET = TableFacts(NAME, 7, files=40, size=10**9, rows=1000)


def tombstone(age: int, state: TombstoneState = TombstoneState.HIDDEN, rows: int = 1) -> Tombstone:
    """One that was added this many days ago."""
    at = NOW - age * DAY * 10**9
    return Tombstone(f"id{age}", "b", NAME, (KeyColumn("id"),), "00", 0, "1", "r", "a", at, state=state, rows=rows)


@pytest.mark.parametrize(
    ("facts", "codes"),
    [
        (QUIET, []),
        (replace(QUIET, small_files=50), []),
        (replace(QUIET, small_files=51), ["small_files"]),
        (replace(QUIET, hidden_rows=100), []),
        (replace(QUIET, hidden_rows=101), ["hidden_rows"]),
        (replace(QUIET, hidden_rows=1, rows=None), ["hidden_rows"]),
        (replace(QUIET, has_unchecked_keys=True), ["keys_unchecked"]),
        (replace(QUIET, tombstones=1, oldest_tombstone=NOW - 29 * DAY * 10**9), []),
        (replace(QUIET, tombstones=2, oldest_tombstone=NOW - 30 * DAY * 10**9), ["tombstones_due"]),
        (replace(QUIET, unsearched_files=1), ["sources_unsearched"]),
        (replace(QUIET, small_files=99, hidden_rows=500), ["small_files", "hidden_rows"]),
    ],
)
def test_what_is_due(facts: TableFacts, codes: list[str]) -> None:
    assert [reason.code for reason in decide_maintenance(facts, Policy(keys=("id",)), NOW)] == codes


def test_at_once_everything_that_can_be_done_is_due() -> None:
    facts = replace(QUIET, small_files=2, hidden_rows=1, tombstones=1, oldest_tombstone=NOW)
    reasons = decide_maintenance(facts, Policy().at_once, NOW)
    assert [reason.text for reason in reasons] == [
        "2 small files of 40 files",
        "less than 1% of the rows are deleted, but still in the files",
        "1 tombstone not yet physical, the oldest for 0 minutes",
    ]
    assert decide_maintenance(QUIET, Policy().at_once, NOW) == ()


def write(folder: Path, *ids: int, partition: str | None = None) -> None:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "part": [id_ % 2 for id_ in ids]})
    write_deltalake(folder, rows, mode="append", partition_by=[partition] if partition else None)


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_facts_of_a_table(tmp_path: Path, is_checkpointed: bool) -> None:
    files, folder = LocalFiles(tmp_path), tmp_path / NAME.path
    folder.mkdir(parents=True)
    write(folder, 0, 1, 2, partition="part")
    write(folder, 3, 5, partition="part")
    if is_checkpointed:
        DeltaTable(folder).create_checkpoint()
    known = [tombstone(3), tombstone(9, rows=2), tombstone(40, TombstoneState.PHYSICAL)]
    facts = read_table_facts(files, NAME, Policy(), state=TableState(1), tombstones=known, with_rows=True)
    assert (facts.files, facts.rows, facts.small_files, facts.small_rows) == (3, 5, 2, 3), (
        "a small file alone in its partition cannot be merged"
    )
    assert (facts.tombstones, facts.tombstone_rows) == (2, 3)
    assert facts.oldest_tombstone == known[1].created_at
    assert (facts.visible_rows, facts.physical_rows) == (5, 8)
    assert facts.log_entries == 2
    assert read_table_facts(files, NAME, Policy(), state=TableState(1)).rows is None
    large = Policy(target_file_size=4)
    assert read_table_facts(files, NAME, large, state=TableState(1)).small_files == 0
    assert Policy(largest_small_file=10).small_file_size == 10


def test_rows_are_counted_without_statistics(tmp_path: Path) -> None:
    files, folder = LocalFiles(tmp_path), tmp_path / NAME.path
    folder.mkdir(parents=True)
    write(folder, 1, 2, 3)
    (log,) = (folder / "_delta_log").glob("*.json")
    log.write_text(log.read_text().replace("numRecords", "unknown"))
    assert read_table_facts(files, NAME, Policy(), state=TableState(0), with_rows=True).rows == 3


def test_checked_keys_are_remembered_until_rows_or_keys_change(tmp_path: Path) -> None:
    files, folder = LocalFiles(tmp_path), tmp_path / NAME.path
    folder.mkdir(parents=True)
    write(folder, 1)
    policy = Policy(keys=("id",), keep_last_by=("part",))
    state: TableState[None] = TableState(3, data_version=2, data_at=77)

    def is_unchecked(policy: Policy, state: TableState[None]) -> bool:
        return read_table_facts(files, NAME, policy, state=state).has_unchecked_keys

    assert is_unchecked(policy, state)
    for version in (1, 2):
        note_checked(files, NAME, to_checked(policy, replace(state, data_version=version)))
    assert not is_unchecked(policy, state)
    assert not is_unchecked(policy, replace(state, version=9))
    assert is_unchecked(policy, replace(state, data_version=4))
    assert is_unchecked(replace(policy, keep_last_by=("id",)), state)
    assert not is_unchecked(Policy(), state)
    (folder / "_penstock" / "checked-keys.json").write_text("[broken")
    assert read_checked(files, NAME) is None


def test_changes_are_counted_once() -> None:
    before = TableFacts(
        NAME, 5, files=4, size=100, rows=50, small_rows=20, hidden_rows=7, hidden_in_small=3, tombstone_rows=10
    )
    after = TableFacts(NAME, 6, files=2, size=90, rows=40)
    done = sum_up(before, after, [tombstone(1, rows=10)], files_merged=3)
    assert (done.base_rows, done.change_rows) == (30, 20 + 4 + 3)
    assert (done.tombstones_applied, done.rows_dropped, done.final_rows, done.version) == (1, 10, 40, 6)
    assert (done.bytes_before, done.bytes_after, done.files_before, done.files_after) == (100, 90, 4, 2)
    assert done.is_changed
    assert not sum_up(after, after).is_changed
