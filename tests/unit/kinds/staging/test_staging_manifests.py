"""The manifest that a staging load writes before it commits."""

from __future__ import annotations

from typing import Any, cast

import pytest

from builders import NAME, consumed, load_raw, write_raw
from penstock.errors import RawFileError, VerificationError
from penstock.kinds.staging.decide import StagingItem
from penstock.kinds.staging.load import StagingLoad
from penstock.kinds.staging.progress import CODEC, StagingProgress
from penstock.kinds.staging.raw_files import hash_content
from penstock.kinds.staging.values import NewFile, StagingWork
from penstock.lake.delta_log import Commit
from penstock.lake.manifests import LONGEST_CHAIN, create_manifest
from penstock.lake.progress import read_table_state
from penstock.lake.tables import Lake
from penstock.model.plan import Action, Reason, WorkItem
from penstock.model.progress import ConsumedFile, Manifest, RawFile, TableState
from penstock.model.results import ItemResult, Outcome
from penstock.model.schema import Column, Schema
from penstock.storage.local import LocalFiles

SCHEMA = Schema((Column("id", "bigint"),))


def manifest(storage: LocalFiles, raw: LocalFiles, plan: StagingItem) -> Manifest:
    lake = Lake(cast("Any", None), storage)  # the manifest is made without a session
    return StagingLoad(lake, raw, "build")._to_manifest(plan)


def make(
    action: Action, state: TableState[StagingProgress], *files: RawFile, kept: tuple[ConsumedFile, ...] = ()
) -> StagingItem:
    new = tuple(NewFile(file, 3) for file in files)
    reasons = (Reason("because", "a test says so"),)
    work = StagingWork(files=new, state=state, schema=SCHEMA, kept=kept)
    return WorkItem(NAME, "staging", action, reasons, work)


def files_of(manifest: Manifest) -> tuple[ConsumedFile, ...]:
    return tuple(CODEC.decode(manifest.payload).files.values())


def put(raw: LocalFiles, path: str) -> RawFile:
    write_raw(raw.root / path)
    return next(file for file in raw.walk("") if file.path == path)


def test_a_rebuild_states_everything(storage: LocalFiles, raw: LocalFiles) -> None:
    file = put(raw, "orders/1.parquet")
    made = manifest(storage, raw, make(Action.REBUILD, TableState(), file))
    assert (made.complete, made.parent, made.schema, made.build_request_id) == (True, None, SCHEMA, "build")
    assert files_of(made) == (ConsumedFile(file, 3, hash_content(raw, file.path)),)


def test_an_append_states_what_it_adds_and_what_was_touched(storage: LocalFiles, raw: LocalFiles) -> None:
    first, second = put(raw, "orders/1.parquet"), put(raw, "orders/2.parquet")
    load_raw(storage, raw, NAME, [first.path])
    touched = consumed(first.path, modified_ns=99)
    made = manifest(storage, raw, make(Action.APPEND, read_table_state(storage, NAME, CODEC), second, kept=(touched,)))
    assert (made.complete, made.parent) == (False, 1)
    assert [entry.file.path for entry in files_of(made)] == [first.path, second.path]
    assert files_of(made)[0] == touched


def test_after_a_long_chain_everything_is_stated_again(storage: LocalFiles, raw: LocalFiles) -> None:
    """However many appends there are, a reader follows a bounded number of manifests and no file is forgotten."""
    put(raw, "orders/000.parquet")
    load_raw(storage, raw, NAME, ["orders/000.parquet"])
    table = storage.root / NAME.path
    lengths = []
    for index in range(1, LONGEST_CHAIN + 4):
        file = put(raw, f"orders/{index:03}.parquet")
        number = create_manifest(
            storage, NAME, manifest(storage, raw, make(Action.APPEND, read_table_state(storage, NAME, CODEC), file))
        ).number
        commit = (table / "_delta_log" / f"{0:020d}.json").read_text().replace('"version":1}', f'"version":{number}}}')
        (table / "_delta_log" / f"{index:020d}.json").write_text(commit)
        progress = read_table_state(storage, NAME, CODEC).progress
        assert progress is not None
        assert len(progress.payload.files) == index + 1
        lengths.append(len(progress.chain))
    assert max(lengths) == LONGEST_CHAIN
    assert lengths[LONGEST_CHAIN - 2 :] == [LONGEST_CHAIN, 1, 2, 3, 4]


def test_a_file_that_vanished_before_the_load_is_named(storage: LocalFiles, raw: LocalFiles) -> None:
    file = RawFile("orders/1.parquet", 10, 1)
    with pytest.raises(RawFileError, match=r"orders/1\.parquet"):
        manifest(storage, raw, make(Action.REBUILD, TableState(), file))


def test_rows_that_the_footers_did_not_promise_disown_the_commit(storage: LocalFiles, raw: LocalFiles) -> None:
    put(raw, "orders/1.parquet")
    load_raw(storage, raw, NAME, ["orders/1.parquet"])
    load = StagingLoad(Lake(None, storage), raw, "b1")  # type: ignore[arg-type]
    load._check_rows(NAME, Commit(0, 1, "WRITE", 0, True, {"numOutputRows": "5"}), 5)
    load._check_rows(NAME, Commit(0, 1, "WRITE", 0, True, {}), 5)
    three = Commit(0, 1, "WRITE", 0, True, {"numOutputRows": "3"})
    assert load._check_rows(NAME, three, 6, lambda _: 1, lambda: 2) == (1, 2), "suppressed rows and duplicates"
    assert read_table_state(storage, NAME, CODEC).damage is None
    with pytest.raises(VerificationError, match="4 rows were written"):
        load._check_rows(NAME, Commit(0, 1, "WRITE", 0, True, {"numOutputRows": "4"}), 5)
    damage = read_table_state(storage, NAME, CODEC).damage
    assert damage is not None
    assert damage.code == "progress_missing", "so the next run rebuilds the table"


def test_a_drop_leaves_no_version(storage: LocalFiles, raw: LocalFiles) -> None:
    put(raw, "orders/1.parquet")
    load_raw(storage, raw, NAME, ["orders/1.parquet"])
    load = StagingLoad(Lake(cast("Any", None), storage), raw, "build")
    done = load.load(make(Action.DROP, read_table_state(storage, NAME, CODEC)))
    assert not read_table_state(storage, NAME, CODEC).exists
    assert (done.version, done.rows) == (None, 0)
    assert ItemResult(str(NAME), NAME, Action.DROP, Outcome.PASS, load=done).to_json()["version"] is None
