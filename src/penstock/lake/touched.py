"""Which values of a column the rows have that changed since a table was read, by the statistics in its Delta log. No JVM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from penstock.lake.delta_log import MALFORMED, find_version
from penstock.lake.marks import find_start
from penstock.model.names import DatasetName
from penstock.model.progress import InputMark
from penstock.storage.files import Files

Values: TypeAlias = tuple[Any, Any]
"""The least and the greatest value of a file's rows."""

_UNREADABLE = (OSError, *MALFORMED)


class _UnknownError(Exception):
    """The log does not say which values a changed file has."""


def find_touched(files: Files, name: DatasetName, mark: InputMark, column: str) -> list[Values] | None:
    """The values of the rows that came or went since this mark, as ranges; None when the log does not tell.

    It tells if the table is partitioned by the column, or if files were only added or changed in place. Statistics of a file that
    was removed are not in the log; those of columns beyond the first 32 are not either.
    """
    start = find_start(files, name, mark.version, mark.at)
    if start is None:
        return None
    found: dict[Values, None] = {}
    for version in range(start + 1, (find_version(files, name.path) or 0) + 1):
        try:
            lines = files.read(f"{name.path}/_delta_log/{version:020d}.json").splitlines()
            for values in _read_commit([json.loads(line) for line in lines if line.strip()], column.lower()):
                found[values] = None
        except (*_UNREADABLE, _UnknownError):
            return None
    return list(found)


def _read_commit(actions: Iterable[Mapping[str, Any]], column: str) -> Iterator[Values]:
    added: dict[str, Values | None] = {}
    removed: list[Mapping[str, Any]] = []
    for action in actions:
        file = action.get("add") or action.get("remove")
        if file is None or not file.get("dataChange", True):
            continue
        if "add" in action:
            added[file["path"]] = _values_of(file, column)
        else:
            removed.append(file)
    # A file that is changed in place is removed and added again: the statistics of what is added cover all its rows.
    gone = [_values_of(file, column) for file in removed if file["path"] not in added]
    yield from (values for values in (*added.values(), *gone) if values is not None)


def _values_of(file: Mapping[str, Any], column: str) -> Values | None:
    """The values of a file's rows; None when it has no rows with a value."""
    for key, value in (file.get("partitionValues") or {}).items():
        if key.lower() == column:
            return None if value is None else (value, value)
    stats = json.loads(file["stats"]) if file.get("stats") else {}
    if stats.get("numRecords") == 0:
        return None
    least, greatest = (_by_name(stats.get(which), column) for which in ("minValues", "maxValues"))
    if least is not None and greatest is not None:
        return least, greatest
    nulls = _by_name(stats.get("nullCount"), column)
    if nulls is not None and nulls == stats.get("numRecords"):
        return None
    raise _UnknownError


def _by_name(values: Mapping[str, Any] | None, column: str) -> Any:
    return next((value for key, value in (values or {}).items() if key.lower() == column), None)
