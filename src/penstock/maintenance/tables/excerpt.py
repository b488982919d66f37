"""Reading some files of a table, and nothing else of it, by Spark.

Delta reads every file of a table even when a condition is about file names. So the files are made a table of their own for a
moment, as a shallow clone does: a log whose one commit names them by their full paths. No data is copied.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from penstock.errors import StorageError
from penstock.lake.log_facts import LogState
from penstock.lake.log_names import LOG
from penstock.lake.manifests import FOLDER
from penstock.lake.stored_paths import Vector
from penstock.storage.files import Files

_PREFIX = "proof-"
_MAPPING = "delta.columnMapping."
_SAFE = "/:=+,;@!$&'()*~"


def new_place(table: str) -> str:
    """A folder beside the table that nobody has ever opened; `remove_place` removes it."""
    return f"{table}/{FOLDER}/{_PREFIX}{uuid4().hex}"


def remove_place(files: Files, place: str) -> None:
    """Remove such a folder."""
    for file in files.walk(place):
        with suppress(FileNotFoundError):
            files.remove(file.path)
    files.remove_empty_folders(place)


def remove_places(files: Files, table: str) -> None:
    """Remove all such folders of a table, which runs that were killed have left."""
    for name in files.folders(f"{table}/{FOLDER}"):
        if name.startswith(_PREFIX):
            remove_place(files, f"{table}/{FOLDER}/{name}")


@contextmanager
def excerpt_of(files: Files, table: str, state: LogState, stored: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A table with nothing but these files, for the block; they are given as the `add` or `remove` actions of the log."""
    root = _encode(files.spark_path(table))
    configuration = {key: value for key, value in state.properties.items() if key.startswith(_MAPPING)}
    metadata = {**state.metadata, "format": {"provider": state.metadata["format"], "options": {}}}
    protocol = {key: value for key, value in state.protocol.items() if value != []}
    actions: list[dict[str, Any]] = [
        {"protocol": protocol},
        {"metaData": {**metadata, "id": str(uuid4()), "configuration": configuration}},
        *({"add": _to_add(root, action)} for action in stored),
    ]
    place = new_place(table)
    try:
        content = "\n".join(map(json.dumps, actions))
        files.create(f"{place}/{LOG}/{0:020d}.json", content.encode())
        yield place
    finally:
        remove_place(files, place)


def _to_add(root: str, action: Mapping[str, Any]) -> dict[str, Any]:
    if action.get("partitionValues") is None:
        raise StorageError("the log does not say which partition a removed file belongs to")
    add = {
        "path": f"{root}/{action['path']}",
        "partitionValues": action["partitionValues"],
        "size": action["size"],
        "modificationTime": 0,
        "dataChange": True,
    }
    vector = action.get("deletionVector")
    return {**add, "deletionVector": _to_absolute(root, vector)} if vector else add


def _to_absolute(root: str, vector: Mapping[str, Any]) -> dict[str, Any]:
    """A deletion vector by its full path; one that is stored in the log itself stays as it is."""
    name = Vector(vector["storageType"], vector["pathOrInlineDv"], None, 0, 0).file
    if name is None:
        return dict(vector)
    return {**vector, "storageType": "p", "pathOrInlineDv": f"{root}/{_encode(name)}"}


def _encode(path: str) -> str:
    return quote(path, safe=_SAFE)
