"""Progress that cannot be used, and writes of other programs: a reason in the plan, never a crash and never a guess."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from builders import NAME, begin, consumed, load, write_manifest, write_table
from penstock.kinds.staging.progress import CODEC
from penstock.lake.manifest_formats import FORMAT, seal
from penstock.lake.manifests import FOLDER
from penstock.lake.progress import read_table_state
from penstock.model.names import DatasetName
from penstock.model.progress import Entry
from penstock.model.schema import Column, Schema
from penstock.storage.local import LocalFiles

A_FILE = {"path": "a", "size": 1, "modified_ns": 1, "etag": None, "rows": 1, "hash": "h"}
SCHEMA = Schema((Column("id", "bigint"), Column("note", "string", nullable=False)))


def _change(storage: LocalFiles, number: int, /, **values: Any) -> None:
    file = storage.root / NAME.path / FOLDER / f"{number:020d}.json"
    file.write_text(json.dumps(seal({**json.loads(file.read_text()), **values})))


def _edit(storage: LocalFiles, old: str, new: str) -> None:
    file = storage.root / NAME.path / FOLDER / f"{2:020d}.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


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
        (lambda s: write_manifest(s, 2, b""), "progress_unreadable", "manifest 2 cannot be read"),
        (lambda s: write_manifest(s, 2, b"\xff\xfe\x00"), "progress_unreadable", "manifest 2 cannot be read"),
        (lambda s: write_manifest(s, 2, b"[1, 2]"), "progress_unreadable", "manifest 2 is not a valid manifest"),
        (lambda s: write_manifest(s, 2, b"null"), "progress_unreadable", "manifest 2 is not a valid manifest"),
        (lambda s: write_manifest(s, 2, b"{}"), "progress_unreadable", "manifest 2 is not a valid manifest"),
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
        (lambda s: write_manifest(s, 2, b"[" * 100_000), "progress_unreadable", "manifest 2"),
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


def test_a_foreign_write_below_a_fence_is_damage(storage: LocalFiles) -> None:
    load(storage)
    write_table(storage.root / NAME.path)
    load(storage, entry=Entry.FENCE, rows=())
    state = read_table_state(storage, NAME, CODEC)
    assert (state.number, state.progress) == (2, None)
    assert state.damage is not None
    assert state.damage.code == "foreign_write"
