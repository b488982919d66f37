"""Progress: what a table's committed rows stand for, as manifests and the Delta log prove it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

import pytest

from builders import NAME, begin, clean_log, compact_table, consumed, load, write_table
from penstock.kinds.cdc.progress import CODEC as CDC
from penstock.kinds.cdc.progress import CdcProgress, Identity, Segment
from penstock.kinds.derived.progress import CODEC as DERIVED
from penstock.kinds.derived.progress import DerivedProgress
from penstock.kinds.staging.columns import resolve_schema
from penstock.kinds.staging.progress import CODEC
from penstock.lake import manifests
from penstock.lake.manifest_formats import FORMAT, seal
from penstock.lake.manifests import FOLDER, create_manifest, find_build, read_manifest, remove_old_manifests
from penstock.lake.marks import find_added_files, find_hiding_requests, find_newest_requests, find_start
from penstock.lake.progress import read_table_state
from penstock.lake.standing import find_unverified, read_standing
from penstock.model.changes import RESERVED
from penstock.model.contract import NO_CONTRACT
from penstock.model.names import DatasetName
from penstock.model.progress import Entry, InputMark, Manifest, TableState
from penstock.model.schema import Column, Schema, SeenColumn
from penstock.model.schema_diff import diff_tables
from penstock.storage.local import LocalFiles

A_FILE = {"path": "a", "size": 1, "modified_ns": 1, "etag": None, "rows": 1, "hash": "h"}
MARK = InputMark(4, 17, "abc")
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


def _change(storage: LocalFiles, number: int, /, **values: Any) -> None:
    file = storage.root / NAME.path / FOLDER / f"{number:020d}.json"
    file.write_text(json.dumps(seal({**json.loads(file.read_text()), **values})))


def _edit(storage: LocalFiles, old: str, new: str) -> None:
    file = storage.root / NAME.path / FOLDER / f"{2:020d}.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def _write(storage: LocalFiles, number: int, content: bytes) -> None:
    (storage.root / NAME.path / FOLDER / f"{number:020d}.json").write_bytes(content)


def _remove(storage: LocalFiles, number: int) -> None:
    (storage.root / NAME.path / FOLDER / f"{number:020d}.json").unlink()


def _truncate(storage: LocalFiles) -> None:
    file = storage.root / NAME.path / FOLDER / f"{2:020d}.json"
    file.write_bytes(file.read_bytes()[:-20])


def _break_log(storage: LocalFiles) -> None:
    (storage.root / NAME.path / "_delta_log" / f"{1:020d}.json").write_text('{"add"')


def _restore(storage: LocalFiles) -> None:
    from deltalake import DeltaTable

    DeltaTable(storage.root / NAME.path).restore(0)


@pytest.mark.parametrize(
    ("damage", "code", "text"),
    [
        (lambda s: _remove(s, 2), "progress_missing", "manifest 2 is missing"),
        (lambda s: _remove(s, 1), "progress_missing", "manifest 1 is missing"),  # further down the chain
        (_truncate, "progress_unreadable", "manifest 2 cannot be read"),
        (lambda s: _write(s, 2, b""), "progress_unreadable", "manifest 2 cannot be read"),
        (lambda s: _write(s, 2, b"\xff\xfe\x00"), "progress_unreadable", "manifest 2 cannot be read"),
        (lambda s: _write(s, 2, b"[1, 2]"), "progress_unreadable", "manifest 2 is not a valid manifest"),
        (lambda s: _write(s, 2, b"null"), "progress_unreadable", "manifest 2 is not a valid manifest"),
        (lambda s: _write(s, 2, b"{}"), "progress_unreadable", "manifest 2 is not a valid manifest"),
        (lambda s: _change(s, 2, format="1"), "progress_unreadable", "manifest 2 cannot be read"),
        (lambda s: _change(s, 2, entry="other"), "progress_unreadable", "manifest 2 cannot be read"),
        (lambda s: _change(s, 2, kind="other"), "kind_changed", "another kind (other, now staging)"),
        (lambda s: _change(s, 2, payload=None), "progress_unreadable", "manifest 2 cannot be read"),
        (
            lambda s: _change(s, 2, payload={"files": [{"path": "x"}]}),
            "progress_unreadable",
            "manifest 2 cannot be read",
        ),
        (
            lambda s: _change(s, 2, payload={"files": {}, "seen": [], "settings": None}),
            "progress_unreadable",
            "manifest 2",
        ),
        (
            lambda s: _change(s, 2, payload={"files": [], "seen": [], "settings": 5}),
            "progress_unreadable",
            "manifest 2",
        ),
        (
            lambda s: _change(s, 2, payload={"files": [{**A_FILE, "path": 5}], "seen": [], "settings": None}),
            "progress_unreadable",
            "manifest 2",
        ),
        (
            lambda s: _change(s, 2, payload={"files": [{**A_FILE, "rows": None}], "seen": [], "settings": None}),
            "progress_unreadable",
            "manifest 2",
        ),
        (lambda s: _change(s, 2, hidden="id"), "progress_unreadable", "manifest 2"),
        (lambda s: _change(s, 2, kind=None), "progress_unreadable", "manifest 2"),
        (lambda s: _write(s, 2, b"[" * 100_000), "progress_unreadable", "manifest 2"),
        (lambda s: _change(s, 2, schema="id int"), "progress_unreadable", "manifest 2 cannot be read"),
        (lambda s: _change(s, 2, parent="x"), "progress_unreadable", "manifest 2 cannot be read"),
        (lambda s: _change(s, 2, parent=None), "progress_unreadable", "manifest 2 has no valid parent"),
        (lambda s: _change(s, 2, parent=2), "progress_unreadable", "manifest 2 has no valid parent"),
        (lambda s: _change(s, 2, format=FORMAT + 1), "progress_newer", f"a newer Penstock (format {FORMAT + 1})"),
        (lambda s: _edit(s, '"path": "b"', '"path": "c"'), "progress_unreadable", "does not match its checksum"),
        (lambda s: _edit(s, '"rows": 1', '"rows": 2'), "progress_unreadable", "does not match its checksum"),
        (lambda s: _edit(s, '"checksum": "', '"checksum": "0'), "progress_unreadable", "does not match its checksum"),
        (lambda s: _edit(s, '"checksum"', '"check"'), "progress_unreadable", "does not match its checksum"),
        (lambda s: _edit(s, '"checksum": "', '"checksum": 5, "x": "'), "progress_unreadable", "checksum"),
        (lambda s: _change(s, 2, dataset="main.other"), "progress_mismatch", "belongs to main.other"),
        (lambda s: _change(s, 2, number=3), "progress_mismatch", "manifest 2"),
        (
            lambda s: write_table(s.root / NAME.path),
            "foreign_write",
            "version 2 (WRITE) was written by something other",
        ),
        (_restore, "foreign_write", "version 2 (RESTORE)"),
        (_break_log, "log_damaged", "version 1 of staging/orders"),
    ],
)
def test_progress_that_cannot_be_used_is_a_reason_and_never_a_crash(
    damage: Any, code: str, text: str, storage: LocalFiles
) -> None:
    load(storage, files=(consumed("a"),), schema=SCHEMA)
    load(storage, files=(consumed("b"),), complete=False, parent=1, schema=SCHEMA)
    damage(storage)
    state = read_table_state(storage, NAME, CODEC)
    assert state.exists
    assert state.progress is None
    assert state.damage is not None
    assert state.damage.code == code
    assert text in state.damage.text


def test_a_table_without_any_commit_of_ours_has_no_progress(storage: LocalFiles) -> None:
    write_table(storage.root / NAME.path, rows=())
    state = read_table_state(storage, NAME, CODEC)
    assert (state.number, state.progress, state.damage.code if state.damage else None) == (None, None, "no_progress")


def test_manifests_of_another_table_do_not_count(storage: LocalFiles) -> None:
    other = DatasetName("staging", "other")
    load(storage)
    load(storage, other)
    for number in (1,):
        source = storage.root / NAME.path / FOLDER / f"{number:020d}.json"
        shutil.copy(source, storage.root / other.path / FOLDER / source.name)
    damage = read_table_state(storage, other, CODEC).damage
    assert damage is not None
    assert damage.code == "progress_mismatch"


@pytest.mark.parametrize("lost", [False, True], ids=["manifests kept", "manifests lost"])
def test_damage_does_not_hide_the_committed_number(lost: bool, storage: LocalFiles) -> None:
    """A rebuild under a number that is not higher would be skipped by Delta without a word, for ever."""
    for _ in range(3):
        load(storage)
    write_table(storage.root / NAME.path)
    if lost:
        shutil.rmtree(storage.root / NAME.path / FOLDER)
    state = read_table_state(storage, NAME, CODEC)
    assert state.damage is not None
    assert state.number == 3
    assert begin(storage, number=state.number or 0).number == 4


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


def test_a_foreign_write_below_a_fence_is_damage(storage: LocalFiles) -> None:
    load(storage)
    write_table(storage.root / NAME.path)
    load(storage, entry=Entry.FENCE, rows=())
    state = read_table_state(storage, NAME, CODEC)
    assert (state.number, state.progress) == (2, None)
    assert state.damage is not None
    assert state.damage.code == "foreign_write"


def _old(storage: LocalFiles, **values: Any) -> dict[str, Any]:
    """A committed manifest as formats 1 to 3 had it: the fields of every kind side by side."""
    number = load(storage, schema=SCHEMA).number
    columns = [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in SCHEMA.columns]
    envelope = {"dataset": str(NAME), "number": number, "parent": None, "kind": "load", "complete": True}
    kinds = {"files": [], "schema": columns, "inputs": {}, "definition": None, "settings": None}
    old = {"format": 3, **envelope, **kinds, "seen": [], "segments": [], "position": {}, "build_request_id": "b"}
    return {**old, **values}


def test_progress_of_format_1_is_read_with_what_it_did_not_know(storage: LocalFiles) -> None:
    """Types were those of the table, sizes of numbers were not kept."""
    old = _old(storage, format=1)
    del old["seen"], old["segments"], old["position"]
    _write(storage, 1, json.dumps(old).encode())
    progress = read_table_state(storage, NAME, CODEC).progress
    assert progress is not None
    seen = progress.payload.seen
    assert [(c.name, c.types, c.is_large) for c in seen] == [("id", {"bigint"}, True), ("note", {"string"}, False)]
    assert resolve_schema(seen, NO_CONTRACT).fingerprint == SCHEMA.fingerprint
    assert diff_tables(progress.schema or SCHEMA, resolve_schema(seen, NO_CONTRACT)) == ()


def test_a_manifest_of_format_4_has_no_checksum_and_is_read(storage: LocalFiles) -> None:
    load(storage, files=(consumed("a"),))
    value = json.loads((storage.root / NAME.path / FOLDER / f"{1:020d}.json").read_text())
    del value["checksum"]
    _write(storage, 1, json.dumps({**value, "format": 4}).encode())
    state = read_table_state(storage, NAME, CODEC)
    assert state.damage is None
    assert state.payload is not None
    assert list(state.payload.files) == ["a"]


def test_dates_of_an_older_format_may_be_beyond_every_timestamp(storage: LocalFiles) -> None:
    """Nobody looked then: before such a column becomes a timestamp, all files are asked again."""
    seen = (SeenColumn("day", frozenset({"date"})), SeenColumn("id", frozenset({"int"})))
    load(storage, seen=seen)
    value = json.loads((storage.root / NAME.path / FOLDER / f"{1:020d}.json").read_text())
    _write(storage, 1, json.dumps({**value, "format": 4}).encode())
    payload = read_table_state(storage, NAME, CODEC).payload
    assert payload is not None
    assert [column.is_large for column in payload.seen] == [True, False]


def test_the_kind_of_an_old_manifest_is_inferred_by_its_content(storage: LocalFiles) -> None:
    """An input of format 1 has no time and counts as changed."""
    inputs = {"main.a": {"version": 4, "at": 17, "columns": "abc"}, "main.old": 4}
    _write(storage, 1, json.dumps(_old(storage, definition="d", settings="s", inputs=inputs)).encode())
    derived = read_table_state(storage, NAME, DERIVED).payload
    assert derived == DerivedProgress({"main.a": MARK, "main.old": InputMark(-1, 0)}, "d", "s")
    assert read_table_state(storage, NAME, CODEC).damage is not None
    segment = {"name": "x.parquet", "rows": 1, "size": 2, "truncates": 0}
    position = {"keys": ["id"], "sequence": "bigint", "batch": ["7", "abc"], "source": {"f": {"version": 3, "at": 5}}}
    _write(storage, 2, json.dumps(_old(storage, segments=[segment], position=position)).encode())
    state = read_table_state(storage, NAME, CDC)
    assert state.payload == CdcProgress(
        {}, (Segment(**segment),), Identity(("id",), "bigint"), ("7", "abc"), {"f": {"version": 3, "at": 5}}
    )
    assert state.progress is not None
    assert state.progress.hidden == (RESERVED,)


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
