"""Which values changed rows have, from the statistics of a Delta log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.lake.touched import find_touched
from penstock.model.names import DatasetName
from penstock.model.progress import InputMark
from penstock.storage.local import LocalFiles

NAME = DatasetName("staging", "sales")


def stats(least: object, greatest: object, **more: Any) -> str:
    return json.dumps({"numRecords": 2, "minValues": {"Day": least}, "maxValues": {"Day": greatest}, **more})


def add(path: str, **fields: Any) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, "dataChange": True, **fields}}


def remove(path: str, **fields: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True, **fields}}


def touched(folder: Path, *actions: dict[str, Any], column: str = "day") -> list[tuple[Any, Any]] | None:
    """What a reader finds that has read version 0."""
    log = folder / NAME.path / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for version, found in enumerate([[add("0", stats=stats("2023-01-01", "2023-01-02"))], list(actions)]):
        lines = [{"commitInfo": {"operation": "WRITE", "timestamp": version}}, *found]
        (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    return find_touched(LocalFiles(folder), NAME, InputMark(0, 0), column)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([add("1", stats=stats("2024-01-01", "2024-01-03"))], [("2024-01-01", "2024-01-03")]),
        ([add("1", partitionValues={"day": "2024-01-05"})], [("2024-01-05", "2024-01-05")]),
        ([remove("0", partitionValues={"day": "2024-01-05"})], [("2024-01-05", "2024-01-05")]),
        ([add("1", partitionValues={"day": None})], []),
        ([add("1", stats=stats("a", "b"), dataChange=False), remove("0", dataChange=False)], []),
        ([remove("0"), add("0", stats=stats("2023-01-01", "2023-01-02"))], [("2023-01-01", "2023-01-02")]),
        ([add("1", stats=json.dumps({"numRecords": 0}))], []),
        ([add("1", stats=json.dumps({"numRecords": 2, "nullCount": {"day": 2}}))], []),
        ([remove("0")], None),
        ([remove("0"), add("1", stats=stats("2024-01-01", "2024-01-01"))], None),
        ([add("1")], None),
        ([add("1", stats=stats("a", "b", nullCount={"other": 0})), add("2", stats="{")], None),
    ],
)
def test_values_of_changed_rows(tmp_path: Path, actions: list[dict[str, Any]], expected: object) -> None:
    assert touched(tmp_path, *actions) == expected


def test_a_column_without_statistics_is_unknown(tmp_path: Path) -> None:
    assert touched(tmp_path, add("1", stats=stats("a", "b")), column="other") is None


def test_a_log_that_no_longer_has_the_mark_is_unknown(tmp_path: Path) -> None:
    assert touched(tmp_path, add("1", stats=stats("a", "b"))) is not None
    assert find_touched(LocalFiles(tmp_path), NAME, InputMark(0, 99), "day") is None
    assert find_touched(LocalFiles(tmp_path), NAME, InputMark(1, 1), "day") == []
