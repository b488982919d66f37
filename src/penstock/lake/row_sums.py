"""What the rows of a table add up to, kept beside its progress: tells whether a table that was written again has the same rows.

Only an aid: without it, or with one that is damaged or of other rows, the table counts as changed. No JVM.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConcurrentRunError, StorageError
from penstock.lake.manifest_formats import FORMAT, is_intact, seal
from penstock.lake.manifests import FOLDER
from penstock.model.names import DatasetName
from penstock.model.progress import TableState
from penstock.storage.files import Files, overwrite


@dataclass(frozen=True, slots=True)
class RowSums:
    """How many rows there are, and the sum and the exclusive or of their hashes: the same in any order."""

    rows: int
    total: str
    mixed: int


def read_sums(files: Files, name: DatasetName, state: TableState[Any]) -> RowSums | None:
    """The sums of the rows that the table has in this state; None when they are not known."""
    try:
        value = json.loads(files.read(_path(name)))
        if not is_intact(value) or value["of"] != _key(name, state):
            return None
        return RowSums(int(value["rows"]), str(value["total"]), int(value["mixed"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def write_sums(files: Files, name: DatasetName, state: TableState[Any], sums: RowSums) -> None:
    """Keep the sums of the rows that the table has in this state."""
    value = {"format": FORMAT, "of": _key(name, state), "rows": sums.rows, "total": sums.total, "mixed": sums.mixed}
    with suppress(OSError, StorageError, ConcurrentRunError):  # only an aid
        overwrite(files, _path(name), json.dumps(seal(value)).encode())


def _key(name: DatasetName, state: TableState[Any]) -> list[Any]:
    """Rows are those of the newest version that changed them."""
    return [str(name), state.data_version, state.data_at]


def _path(name: DatasetName) -> str:
    return f"{name.path}/{FOLDER}/rows.json"
