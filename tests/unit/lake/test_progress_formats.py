"""Progress manifests of earlier formats are read with what they did not know."""

from __future__ import annotations

import json
from typing import Any

from builders import NAME, consumed, load, write_manifest
from penstock.kinds.cdc.progress import CODEC as CDC
from penstock.kinds.cdc.progress import CdcProgress, Identity, Segment
from penstock.kinds.derived.progress import CODEC as DERIVED
from penstock.kinds.derived.progress import DerivedProgress
from penstock.kinds.staging.columns import resolve_schema
from penstock.kinds.staging.progress import CODEC
from penstock.lake.manifests import FOLDER
from penstock.lake.progress import read_table_state
from penstock.model.changes import RESERVED
from penstock.model.contract import NO_CONTRACT
from penstock.model.progress import InputMark
from penstock.model.schema import Column, Schema, SeenColumn
from penstock.model.schema_diff import diff_tables
from penstock.storage.local import LocalFiles

MARK = InputMark(4, 17, "abc")
SCHEMA = Schema((Column("id", "bigint"), Column("note", "string", nullable=False)))


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
    write_manifest(storage, 1, json.dumps(old).encode())
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
    write_manifest(storage, 1, json.dumps({**value, "format": 4}).encode())
    state = read_table_state(storage, NAME, CODEC)
    assert state.damage is None
    assert state.payload is not None
    assert list(state.payload.files) == ["a"]


def test_dates_of_an_older_format_may_be_beyond_every_timestamp(storage: LocalFiles) -> None:
    """Nobody looked then: before such a column becomes a timestamp, all files are asked again."""
    seen = (SeenColumn("day", frozenset({"date"})), SeenColumn("id", frozenset({"int"})))
    load(storage, seen=seen)
    value = json.loads((storage.root / NAME.path / FOLDER / f"{1:020d}.json").read_text())
    write_manifest(storage, 1, json.dumps({**value, "format": 4}).encode())
    payload = read_table_state(storage, NAME, CODEC).payload
    assert payload is not None
    assert [column.is_large for column in payload.seen] == [True, False]


def test_the_kind_of_an_old_manifest_is_inferred_by_its_content(storage: LocalFiles) -> None:
    """An input of format 1 has no time and counts as changed."""
    inputs = {"main.a": {"version": 4, "at": 17, "columns": "abc"}, "main.old": 4}
    write_manifest(storage, 1, json.dumps(_old(storage, definition="d", settings="s", inputs=inputs)).encode())
    derived = read_table_state(storage, NAME, DERIVED).payload
    assert derived == DerivedProgress({"main.a": MARK, "main.old": InputMark(-1, 0)}, "d", "s")
    assert read_table_state(storage, NAME, CODEC).damage is not None
    segment = {"name": "x.parquet", "rows": 1, "size": 2, "truncates": 0}
    position = {"keys": ["id"], "sequence": "bigint", "batch": ["7", "abc"], "source": {"f": {"version": 3, "at": 5}}}
    write_manifest(storage, 2, json.dumps(_old(storage, segments=[segment], position=position)).encode())
    state = read_table_state(storage, NAME, CDC)
    assert state.payload == CdcProgress(
        {}, (Segment(**segment),), Identity(("id",), "bigint"), ("7", "abc"), {"f": {"version": 3, "at": 5}}
    )
    assert state.progress is not None
    assert state.progress.hidden == (RESERVED,)
