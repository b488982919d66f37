"""The history of a table's columns."""

from __future__ import annotations

import json

from builders import NAME, load
from penstock.inspect.schemas import diff_versions, read_schema_history
from penstock.storage.local import LocalFiles


def _state_columns(storage: LocalFiles, version: int, *columns: tuple[str, int]) -> None:
    """A commit that states columns, each with the id that Delta gives it for column mapping."""
    log = storage.root / NAME.path / "_delta_log"
    fields = [
        {"name": name, "type": "long", "nullable": True, "metadata": {"delta.columnMapping.id": id_}}
        for name, id_ in columns
    ]
    actions = [
        {"commitInfo": {"operation": "RENAME COLUMN", "timestamp": version}},
        {"metaData": {"schemaString": json.dumps({"type": "struct", "fields": fields})}},
    ]
    (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def test_a_rename_in_place_is_one(storage: LocalFiles) -> None:
    load(storage)
    _state_columns(storage, 1, ("id", 1))
    _state_columns(storage, 2, ("number", 1))
    _state_columns(storage, 3, ("number", 1), ("id", 2))
    changes = [[(c.code, c.column) for c in v.column_changes] for v in read_schema_history(storage, NAME)]
    assert changes == [[("column_added", "id")], [("column_renamed", "number")], []]
    assert [change.code for change in diff_versions(storage, NAME, 0, 2)] == ["column_renamed"]
