"""Progress: what a table's committed rows stand for, as manifests and the Delta log prove it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from builders import NAME, begin, clean_log, compact_table, consumed, load, write_table
from penstock.kinds.staging.progress import CODEC
from penstock.lake import manifests
from penstock.lake.manifests import FOLDER, create_manifest, find_build, read_manifest, remove_old_manifests
from penstock.lake.marks import find_added_files, find_hiding_requests, find_newest_requests, find_start
from penstock.lake.progress import read_table_state
from penstock.lake.standing import find_unverified, read_standing
from penstock.model.progress import Entry, InputMark, Manifest, TableState
from penstock.model.schema import Column, Schema
from penstock.storage.local import LocalFiles

SCHEMA = Schema((Column("id", "bigint"), Column("note", "string", nullable=False)))


def test_no_table_is_an_empty_state(storage: LocalFiles) -> None:
    assert read_table_state(storage, NAME, CODEC) == TableState()


def test_an_attempt_without_a_table_is_pending(storage: LocalFiles) -> None:
    begin(storage)
    assert read_table_state(storage, NAME, CODEC) == TableState(pending=True)


def test_everything_that_a_load_says_is_found_again(storage: LocalFiles) -> None:
    files = (consumed("orders/1.parquet", 10, 7, 3, "aa"), consumed("orders/2.parquet", 20, None, 4, None))
    load(storage, files=files, schema=SCHEMA, settings="s", build_request_id="b", hidden=("__x",))
    state = read_table_state(storage, NAME, CODEC)
    assert (state.version, state.number, state.damage, state.pending) == (0, 1, None, False)
    assert state.progress is not None
    assert dict(state.progress.payload.files) == {entry.file.path: entry for entry in files}
    assert (state.progress.schema, state.progress.hidden, state.progress.payload.settings) == (SCHEMA, ("__x",), "s")
    assert find_build(storage, NAME, 1) == "b"
    assert find_build(storage, NAME, 2) is None


def test_increments_add_to_what_the_last_complete_manifest_states(storage: LocalFiles) -> None:
    load(storage, files=(consumed("gone"),))
    load(storage, files=(consumed("a"), consumed("b", modified_ns=1)))
    load(storage, files=(consumed("c"),), complete=False, parent=2)
    load(storage, files=(consumed("b", modified_ns=9), consumed("d")), complete=False, parent=3)  # b was touched
    progress = read_table_state(storage, NAME, CODEC).progress
    assert progress is not None
    assert (progress.number, progress.chain) == (4, (2, 3, 4))
    assert {path: entry.file.modified_ns for path, entry in progress.payload.files.items()} == {
        "a": 1,
        "b": 9,
        "c": 1,
        "d": 1,
    }


def test_an_increment_does_not_follow_attempts_that_never_committed(storage: LocalFiles) -> None:
    load(storage, files=(consumed("a"),))
    begin(storage, files=(consumed("dead"),), complete=False, parent=1)
    load(storage, files=(consumed("b"),), complete=False, parent=1)
    progress = read_table_state(storage, NAME, CODEC).progress
    assert progress is not None
    assert (progress.chain, sorted(progress.payload.files)) == ((1, 3), ["a", "b"])


def test_an_attempt_above_the_committed_number_is_pending_one_below_is_not(storage: LocalFiles) -> None:
    load(storage)
    begin(storage)
    assert read_table_state(storage, NAME, CODEC).pending
    load(storage)
    assert not read_table_state(storage, NAME, CODEC).pending


def test_a_number_is_never_used_again_not_even_when_all_manifests_are_gone(storage: LocalFiles) -> None:
    assert begin(storage).number == 1
    assert begin(storage).number == 2
    assert create_manifest(storage, NAME, Manifest(str(NAME), 7, None)).number == 8
    shutil.rmtree(storage.root / NAME.path / FOLDER)
    assert create_manifest(storage, NAME, Manifest(str(NAME), 8, None)).number == 9


def test_old_manifests_go_and_what_the_progress_rests_on_stays(
    storage: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "KEPT_MANIFESTS", 3)
    for number in range(1, 5):
        load(storage, files=(consumed(f"{number}"),))
    for number in range(5, 10):
        load(storage, files=(consumed(f"{number}"),), complete=False, parent=number - 1)
    begin(storage)
    before = read_table_state(storage, NAME, CODEC)
    assert before.progress is not None
    remove_old_manifests(storage, NAME, before.progress.chain[0], before.progress.number)
    assert read_table_state(storage, NAME, CODEC) == before
    assert sorted(storage.names(f"{NAME.path}/{FOLDER}")) == [f"{number:020d}.json" for number in range(4, 11)]
    load(storage, files=(consumed("10"),))
    after = read_table_state(storage, NAME, CODEC)
    assert after.progress is not None
    remove_old_manifests(storage, NAME, after.progress.chain[0], after.progress.number)
    assert sorted(storage.names(f"{NAME.path}/{FOLDER}")) == [f"{number:020d}.json" for number in (9, 10, 11)]


def test_other_files_beside_manifests_do_not_matter(storage: LocalFiles) -> None:
    load(storage)
    for name in (".new-abc", "7.json", "notes.txt", f"{9:020d}.json.bak"):
        (storage.root / NAME.path / FOLDER / name).write_text("x")
    state = read_table_state(storage, NAME, CODEC)
    assert (state.number, state.damage, state.pending) == (1, None, False)


def test_maintenance_by_others_leaves_progress_as_it_is(storage: LocalFiles) -> None:
    load(storage, files=(consumed("a"),))
    load(storage, files=(consumed("b"),), complete=False, parent=1)
    compact_table(storage.root / NAME.path)
    clean_log(storage.root / NAME.path, keep_from=1)
    state = read_table_state(storage, NAME, CODEC)
    assert (state.version, state.number, state.damage) == (2, 2, None)
    assert state.progress is not None
    assert sorted(state.progress.payload.files) == ["a", "b"]


def test_below_a_fence_the_progress_of_the_load_is_found(storage: LocalFiles) -> None:
    load(storage, files=(consumed("a"),))
    begin(storage)
    load(storage, entry=Entry.FENCE, rows=())
    load(storage, entry=Entry.FENCE, rows=())
    state = read_table_state(storage, NAME, CODEC)
    assert (state.version, state.number, state.damage, state.pending) == (2, 4, None, False)
    assert state.progress is not None
    assert (state.progress.number, sorted(state.progress.payload.files)) == (1, ["a"])


def test_a_rename_that_was_cut_short_is_recognised_as_ours(storage: LocalFiles) -> None:
    """Between two renames of one attempt the table has some names old and some new; by anyone else it is foreign."""
    before = Schema(tuple(Column(name, "bigint", sources=frozenset({name})) for name in ("a", "b")))
    meant = Schema(
        (
            Column("x", "bigint", sources=frozenset({"a", "x"})),
            Column("y", "bigint", sources=frozenset({"b", "y"})),
        )
    )
    load(storage, files=(consumed("orders/1.parquet"),), schema=before)
    log = storage.root / NAME.path / "_delta_log"
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("x", "b")]
    schema = json.dumps({"type": "struct", "fields": fields})
    actions = [{"metaData": {"schemaString": schema}}, {"commitInfo": {"operation": "RENAME COLUMN", "timestamp": 1}}]
    (log / f"{1:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    damage = read_table_state(storage, NAME, CODEC).damage
    assert damage is not None
    assert damage.code == "foreign_write"
    begin(storage, schema=meant)
    state = read_table_state(storage, NAME, CODEC)
    assert state.damage is None
    assert state.progress is not None
    assert state.progress.schema == Schema((meant.columns[0], before.columns[1]))
    assert (state.version, state.data_version) == (1, 0)


def test_a_manifest_keeps_the_mark_of_a_table_whose_log_was_truncated(storage: LocalFiles) -> None:
    """A commit that changes nothing states the newest change of rows; one that changes rows counts for itself."""
    load(storage)
    first = read_table_state(storage, NAME, CODEC)
    standing = read_standing(storage, NAME)
    assert standing is not None
    assert (standing.data_version, standing.data_at) == (first.data_version, first.data_at)
    restated = create_manifest(storage, NAME, standing)
    write_table(storage.root / NAME.path, restated.number, rows=())
    clean_log(storage.root / NAME.path, keep_from=1)
    state = read_table_state(storage, NAME, CODEC)
    assert (state.damage, state.payload) == (None, first.payload)
    assert (state.version, state.data_version, state.data_at) == (1, first.data_version, first.data_at)
    assert first.data_version is not None
    assert first.data_at is not None
    assert find_start(storage, NAME, first.data_version, first.data_at) == 1
    assert find_start(storage, NAME, first.data_version, first.data_at + 1) is None
    write_table(storage.root / NAME.path, begin(storage).number)
    assert read_table_state(storage, NAME, CODEC).data_version == 2
    assert len(find_added_files(storage, NAME, first.data_version, first.data_at) or ()) == 1, (
        "what came after the head"
    )


def test_the_mark_is_optional_in_a_manifest(storage: LocalFiles) -> None:
    """Manifests without it are written as before, so that an older Penstock reads the same."""
    manifest = begin(storage)
    file = storage.root / NAME.path / "_penstock" / f"{manifest.number:020d}.json"
    assert "data" not in json.loads(file.read_text())
    assert read_manifest(storage, NAME, manifest.number) == manifest
    assert "hides" not in json.loads(file.read_text())
    marked = create_manifest(storage, NAME, replace(manifest, data_version=3, data_at=5, hides="a request"))
    assert read_manifest(storage, NAME, marked.number) == marked


def test_requests_whose_keys_were_removed_since_a_mark_are_known_when_nothing_else_changed(storage: LocalFiles) -> None:
    load(storage)
    folder = storage.root / NAME.path

    def commit(hides: str | None) -> InputMark:
        write_table(folder, begin(storage, complete=False, parent=1, hides=hides).number)
        state = read_table_state(storage, NAME, CODEC)
        return InputMark(state.data_version or 0, state.data_at or 0)

    first = commit(None)
    assert find_hiding_requests(storage, NAME, first.version, first.at) == frozenset()
    assert find_newest_requests(storage, NAME) == frozenset()
    second = commit("request 1")
    compact_table(folder)
    commit("request 2")
    assert find_hiding_requests(storage, NAME, first.version, first.at) == {"request 1", "request 2"}
    assert find_hiding_requests(storage, NAME, second.version, second.at) == {"request 2"}
    assert find_newest_requests(storage, NAME) == {"request 1", "request 2"}
    assert find_hiding_requests(storage, NAME, second.version, second.at + 1) is None, "another table"
    log = folder / "_delta_log" / f"{second.version + 1:020d}.json"
    kept = log.read_text()
    log.unlink()
    assert find_hiding_requests(storage, NAME, first.version, first.at) is None, "a part of the log is gone"
    assert find_newest_requests(storage, NAME) == {"request 2"}
    log.write_text(kept)
    commit(None)
    assert find_hiding_requests(storage, NAME, first.version, first.at) is None, "rows were loaded"
    assert find_newest_requests(storage, NAME) == frozenset()
    load(storage)
    last = commit("request 3")
    write_table(folder)
    assert find_hiding_requests(storage, NAME, last.version, last.at) is None, "another program wrote"
    assert find_newest_requests(storage, NAME) == frozenset()


def test_a_rewrite_that_was_undone_counts_as_if_it_had_never_been(storage: LocalFiles) -> None:
    """RESTORE carries no number; only when it undid nothing but rewrites, the table stands for what it stood for."""
    load(storage)
    folder = storage.root / NAME.path
    log = folder / "_delta_log"
    before = read_table_state(storage, NAME, CODEC)
    rewrite = {"commitInfo": {"operation": "REORG", "timestamp": 5}}
    restore = {"commitInfo": {"operation": "RESTORE", "timestamp": 6, "operationParameters": {"version": 0}}}
    changed = {"add": {"path": "x", "dataChange": True}}
    (log / f"{1:020d}.json").write_text(json.dumps(rewrite))
    assert find_unverified(storage, NAME) == [1]
    (log / f"{2:020d}.json").write_text(f"{json.dumps(restore)}\n{json.dumps(changed)}")
    assert find_unverified(storage, NAME) == []
    damage = read_table_state(storage, NAME, CODEC).damage
    assert damage is not None
    assert damage.code == "foreign_write"
    standing = read_standing(storage, NAME)
    assert standing is not None
    assert (standing.data_version, standing.data_at) == (before.data_version, before.data_at)
    (log / f"{1:020d}.json").write_text(f"{json.dumps(rewrite)}\n{json.dumps(changed)}")
    assert read_standing(storage, NAME) is None, "somebody else wrote in between"
