"""Columns of Delta tables that their files call by other names: column mapping keeps the first name, or has invented one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import StorageError
from penstock.maintenance.scan.columns import Alias
from penstock.maintenance.scan.places import Entry

_LOG = "/_delta_log/"
_PHYSICAL = "delta.columnMapping.physicalName"


def find_aliases(entries: Iterable[Entry], workers: int) -> frozenset[Alias]:
    """The renamed columns of all Delta tables among these files; what cannot be read is left to the search itself."""
    logs = [
        entry for entry in entries if not entry.is_folder and entry.problem is None and f"/{entry.path}".count(_LOG)
    ]
    with ThreadPoolExecutor(workers) as pool:
        return frozenset(alias for found in pool.map(_aliases, logs) for alias in found)


def _aliases(entry: Entry) -> list[Alias]:
    folder, _, name = f"/{entry.path}".rpartition(_LOG)
    return [
        Alias(entry.place, folder.strip("/"), logical, physical)
        for schema in _schemas(entry, name)
        for logical, physical in _columns(schema, (), ())
        if logical != physical
    ]


def _schemas(entry: Entry, name: str) -> Iterator[Any]:
    try:
        texts = _from_checkpoint(entry) if name.endswith(".checkpoint.parquet") else _from_commit(entry, name)
        yield from [json.loads(text) for text in texts]
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException, StorageError):
        return


def _from_commit(entry: Entry, name: str) -> list[str]:
    if "/" in name or not name.endswith(".json"):
        return []
    content = entry.files.read(entry.path)
    lines = (line for line in content.splitlines() if b'"metaData"' in line)
    actions = (json.loads(line) for line in lines)
    return [action["metaData"]["schemaString"] for action in actions if "metaData" in action]


def _from_checkpoint(entry: Entry) -> list[str]:
    with entry.files.open(entry.path) as stream:
        table = pq.ParquetFile(stream).read(columns=["metaData.schemaString"])
    return [row["schemaString"] for row in table["metaData"].to_pylist() if row is not None and row["schemaString"]]


def _columns(
    schema: Any, logical: tuple[str, ...], physical: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The path of every field by its names for users and by its names in files."""
    if not isinstance(schema, dict):
        return
    for field in schema.get("fields", ()):
        names = (*logical, field["name"])
        stored = (*physical, field.get("metadata", {}).get(_PHYSICAL, field["name"]))
        yield names, stored
        yield from _columns(field["type"], names, stored)
    for inner in ("elementType", "keyType", "valueType"):
        yield from _columns(schema.get(inner), logical, physical)
