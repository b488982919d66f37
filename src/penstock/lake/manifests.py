"""Progress manifests as files next to the table: created exclusively, one number each, never changed. No JVM.

The table's commit carries the number as Delta's transaction identifier. So the commit decides what counts: a progress manifest
whose number was never committed belongs to a failed or unfinished load.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from typing import Any

from penstock.errors import StorageError
from penstock.lake.delta_log import is_load_number
from penstock.lake.manifest_formats import FORMAT, is_intact, seal, to_current_format
from penstock.model.names import DatasetName
from penstock.model.progress import Damage, Entry, Manifest, check_type
from penstock.model.schema import Schema
from penstock.storage.files import Files
from penstock.storage.local import is_misplaced

FOLDER = "_penstock"
KEPT_MANIFESTS = 1000
"""The number of progress manifests that are kept of a table that is loaded every few seconds: each load lists them."""
LONGEST_CHAIN = 20
"""After this many increments the next progress manifest states everything again, so that readers follow few files."""
_LARGE = 1 << 18
_NAME = re.compile(r"(\d{20})\.json\Z")


class ProgressError(Exception):
    """Progress that cannot be used; carries the damage for the plan."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.damage = Damage(code, text)


def create_manifest(files: Files, name: DatasetName, manifest: Manifest) -> Manifest:
    """Write the manifest under the next free number above `manifest.number`, and return it with that number."""
    numbers = manifest_numbers(files, name)
    number = max(*numbers, manifest.number, 0) + 1
    while is_load_number(number):
        numbered = replace(manifest, number=number)
        try:
            files.create(_path(name, number), json.dumps(seal(_to_json(numbered))).encode())
        except FileExistsError:
            number += 1
        else:
            return numbered
    raise StorageError(
        f"{name} has no load number left: the last is {number - 1}",
        hint=f"if no load wrote it, remove {_path(name, number - 1)}; else move the table's folder away, and run again",
    )


def read_manifest(files: Files, name: DatasetName, number: int) -> Manifest:
    """The manifest of a number; ProgressError when it is missing or unusable."""
    try:
        content = files.read(_path(name, number))
    except FileNotFoundError:
        raise ProgressError("progress_missing", f"progress manifest {number} is missing") from None
    except OSError as error:
        if not is_misplaced(error):
            raise
        raise unreadable(number) from None
    manifest = _parse_once(content, number) if len(content) > _LARGE else _parse(content, number)
    if manifest.dataset != str(name) or manifest.number != number:
        raise ProgressError("progress_mismatch", f"progress manifest {number} belongs to {manifest.dataset}")
    return manifest


def manifest_numbers(files: Files, name: DatasetName) -> list[int]:
    """The numbers of all manifests of a table, committed or not; a file with a number that no load can have is not one."""
    found = (int(match[1]) for file in files.names(f"{name.path}/{FOLDER}") if (match := _NAME.match(file)))
    return [number for number in found if is_load_number(number)]


def remove_manifest(files: Files, name: DatasetName, number: int) -> None:
    """Remove the manifest of a commit whose rows turned out wrong; its number stays taken by the commit itself."""
    files.remove(_path(name, number))


def remove_old_manifests(files: Files, name: DatasetName, oldest_needed: int, newest: int) -> None:
    """Remove manifests that are no longer needed, but keep the last ones.

    Only the build that wrote an old version is no longer known.
    """
    oldest = min(oldest_needed, newest - KEPT_MANIFESTS + 1)
    for number in manifest_numbers(files, name):
        if number < oldest:
            files.remove(_path(name, number))


def find_later_numbers(files: Files, name: DatasetName, after: int) -> list[int]:
    """The numbers above this one that other loads have taken."""
    return [number for number in manifest_numbers(files, name) if number > after]


def find_manifest(files: Files, name: DatasetName, number: int) -> Manifest | None:
    """The manifest of a commit; None when it was removed or cannot be used."""
    try:
        return read_manifest(files, name, number)
    except ProgressError:
        return None


def find_build(files: Files, name: DatasetName, number: int) -> str | None:
    """The build request that wrote a commit; None when its manifest was removed."""
    manifest = find_manifest(files, name, number)
    return (manifest.build_request_id or None) if manifest is not None else None


def find_schema(files: Files, name: DatasetName, number: int) -> Schema | None:
    """The table's columns after a load; None when its manifest does not state them or was removed."""
    manifest = find_manifest(files, name, number)
    return manifest.schema if manifest is not None else None


def drop_order(path: str) -> int:
    """In which order a table's files are removed: progress first, because nothing is trusted without it; the log last."""
    return 0 if f"/{FOLDER}/" in path else 2 if "/_delta_log/" in path else 1


def _parse(content: bytes, number: int) -> Manifest:
    try:
        value = json.loads(content)
        if not isinstance(value, dict) or "format" not in value:
            raise ProgressError("progress_unreadable", f"progress manifest {number} is not a valid manifest")
        if value["format"] > FORMAT:
            raise newer(number, f" (format {value['format']})")
        if not is_intact(value):
            raise ProgressError("progress_unreadable", f"progress manifest {number} does not match its checksum")
        return _from_json(dict(to_current_format(value)))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise unreadable(number) from None


_parse_once = lru_cache(maxsize=4)(_parse)
"""The cache is by content: continuous runs parse the same long list of files for every batch."""


def unreadable(number: int) -> ProgressError:
    """A manifest that exists but cannot be parsed."""
    return ProgressError("progress_unreadable", f"progress manifest {number} cannot be read")


def newer(number: int, more: str = "") -> ProgressError:
    """A manifest of a newer version, which this one could misunderstand."""
    return ProgressError("progress_newer", f"progress manifest {number} was written by a newer Penstock{more}")


def _path(name: DatasetName, number: int) -> str:
    return f"{name.path}/{FOLDER}/{number:020d}.json"


def _to_json(manifest: Manifest) -> dict[str, Any]:
    optional: dict[str, Any] = {}
    if manifest.data_version is not None:
        optional["data"] = [manifest.data_version, manifest.data_at]
    if manifest.hides is not None:
        optional["hides"] = manifest.hides
    if manifest.as_of is not None:
        optional["as_of"] = manifest.as_of
    if manifest.is_step:
        optional["step"] = True
    return {
        "format": FORMAT,
        "dataset": manifest.dataset,
        "number": manifest.number,
        "parent": manifest.parent,
        "kind": manifest.kind,
        "entry": manifest.entry.value,
        "complete": manifest.complete,
        "schema": manifest.schema.to_json() if manifest.schema else None,
        "hidden": list(manifest.hidden),
        "build_request_id": manifest.build_request_id,
        "payload": dict(manifest.payload),
        **optional,
    }


def _from_json(value: dict[str, Any]) -> Manifest:
    data_version, data_at = value.get("data") or (None, None)
    return Manifest(
        dataset=value["dataset"],
        number=int(value["number"]),
        parent=int(value["parent"]) if value["parent"] is not None else None,
        kind=check_type(value["kind"], str),
        entry=Entry(value["entry"]),
        complete=bool(value["complete"]),
        schema=Schema.from_json(value["schema"]) if value["schema"] is not None else None,
        hidden=tuple(check_type(name, str) for name in check_type(value["hidden"], list)),
        build_request_id=value["build_request_id"],
        payload={**value["payload"]},
        data_version=check_type(data_version, int, None),
        data_at=check_type(data_at, int, None),
        hides=check_type(value.get("hides"), str, None),
        as_of=check_type(value.get("as_of"), int, None),
        is_step=check_type(value.get("step", False), bool),
    )
