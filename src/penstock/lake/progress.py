"""Progress: manifests beside the table, and the state of a table that they and the Delta log prove. No JVM.

A manifest is created exclusively under the next number before the table's commit, which carries that number as Delta's
transaction identifier. So the commit decides what counts: a manifest whose number never committed is a dead attempt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

from penstock.lake.delta_log import Commit, DamagedLogError, find_checkpointed_number, find_version, iter_commits
from penstock.model.names import DatasetName
from penstock.model.progress import (
    ConsumedFile,
    Damage,
    InputMark,
    Manifest,
    ManifestKind,
    Progress,
    RawFile,
    Segment,
    TableState,
)
from penstock.model.schema import Column, Schema, SeenColumn, seen_from_json, seen_to_json
from penstock.model.types import comparable_type
from penstock.storage.files import Files

FORMAT = 3
FOLDER = "_penstock"
KEPT_MANIFESTS = 1000
"""So many are kept of a table that gets a load every few seconds: listing them is part of every load."""
_LARGE = 1 << 18
LONGEST_CHAIN = 20
"""After this many increments the next manifest states everything again, so that a reader follows few files."""

_NAME = re.compile(r"(\d{20})\.json\Z")


class ProgressError(Exception):
    """Progress that cannot be used; carries the damage for the plan."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.damage = Damage(code, text)


def read_table_state(files: Files, name: DatasetName) -> TableState:
    """The state of a table now: version, committed progress, damage, and whether dead or running attempts are pending."""
    version = find_version(files, name.path)
    numbers = _numbers(files, name)
    if version is None:
        return TableState(pending=bool(numbers))
    number: int | None = None
    progress: Progress | None = None
    damage: Damage | None = None
    data: Commit | None = None
    try:
        altered: Commit | None = None
        for commit in iter_commits(files, name.path):
            data = data or (commit if commit.changes_rows else None)
            number = number if number is not None else commit.number
            if damage is None and progress is None:
                progress, damage = _read_progress(files, name, commit)
                if commit.number is None and commit.schema_json and altered is None:
                    altered = commit
            if data is not None and number is not None and (progress or damage):
                break
        if progress is None and damage is None:
            damage = Damage("no_progress", "the table exists, but no commit by Penstock can be found in its log")
        elif altered is not None and progress is not None:
            progress, damage = _follow_alteration(files, name, progress, altered, numbers)
        if number is None:
            number = find_checkpointed_number(files, name.path)
    except DamagedLogError as error:
        progress, damage = None, Damage(error.code, error.message)
    pending = any(candidate > (number or 0) for candidate in numbers)
    known = _last_known(files, name, number) if damage is not None else {}
    data_version, data_at = (data.version, data.timestamp_ms) if data else (version, None)
    return TableState(version, number, progress, damage, pending, known, data_version, data_at)


def _last_known(files: Files, name: DatasetName, number: int | None) -> Mapping[str, ConsumedFile]:
    """What the newest readable manifest says was loaded; nothing when none can be read."""
    for candidate in sorted(_numbers(files, name), reverse=True):
        if number is None or candidate <= number:
            with suppress(ProgressError):
                if _read_manifest(files, name, candidate).kind is ManifestKind.LOAD:
                    return _fold(files, name, candidate).files
    return {}


def _follow_alteration(
    files: Files, name: DatasetName, progress: Progress, altered: Commit, numbers: Sequence[int]
) -> tuple[Progress | None, Damage | None]:
    """The progress of a table whose columns were altered since its last load: by us, as an attempt says, or by others."""
    now = _by_name(altered.columns or ())
    before = progress.schema.columns if progress.schema else _read_columns_before(files, name, altered)
    if now == _by_name(before):
        return progress, None
    for number in sorted(numbers, reverse=True):
        if number > progress.number and progress.schema:
            with suppress(ProgressError):
                meant = _read_manifest(files, name, number).schema
                followed = _follow_renames(progress.schema, meant, now) if meant else None
                if followed is not None:
                    return replace(progress, schema=followed), None
    return None, _foreign(altered)


def _by_name(columns: Iterable[Column]) -> dict[str, str]:
    return {column.key: comparable_type(column.type) for column in columns}


def _follow_renames(before: Schema, meant: Schema, now: Mapping[str, str]) -> Schema | None:
    """The columns as they are when some of the renames that were meant are done; None when something else happened."""
    if not len(before.columns) == len(meant.columns) == len(now):
        return None
    followed = []
    for pair in zip(before.columns, meant.columns, strict=True):
        match = next((column for column in pair if now.get(column.key) == comparable_type(column.type)), None)
        if match is None:
            return None
        followed.append(match)
    return Schema(tuple(followed)) if len(_by_name(followed)) == len(now) else None


def _read_columns_before(files: Files, name: DatasetName, altered: Commit) -> Sequence[Column]:
    older = (c.columns for c in iter_commits(files, name.path) if c.version < altered.version and c.schema_json)
    return next(older, None) or altered.columns or ()


def _read_progress(files: Files, name: DatasetName, commit: Commit) -> tuple[Progress | None, Damage | None]:
    """What one commit says about the progress; neither when it is a fence or did not change rows."""
    try:
        if commit.number is None:
            return None, _foreign(commit) if commit.changes_rows else None
        if _read_manifest(files, name, commit.number).kind is ManifestKind.LOAD:
            return _fold(files, name, commit.number), None
    except ProgressError as error:
        return None, error.damage
    return None, None


def create_manifest(files: Files, name: DatasetName, manifest: Manifest) -> Manifest:
    """Write the manifest under the next free number above `manifest.number` and return it so; no number is used twice."""
    number = max(_numbers(files, name), default=0)
    number = max(number, manifest.number) + 1
    while True:
        numbered = replace(manifest, number=number)
        try:
            files.create(_path(name, number), json.dumps(_to_json(numbered)).encode())
        except FileExistsError:
            number += 1
        else:
            return numbered


def remove_manifest(files: Files, name: DatasetName, number: int) -> None:
    """Remove the manifest of a commit whose rows turned out wrong; its number stays used, by the commit itself."""
    files.remove(_path(name, number))


def remove_old_manifests(files: Files, name: DatasetName, progress: Progress) -> None:
    """Remove manifests that are long past: of the last ones, and of all that the progress rests on, none goes.

    What is lost is only which build made a version so long ago.
    """
    oldest = min(progress.chain[0], progress.number - KEPT_MANIFESTS + 1)
    for number in _numbers(files, name):
        if number < oldest:
            files.remove(_path(name, number))


def find_attempts(files: Files, name: DatasetName, after: int) -> list[int]:
    """The numbers above this one that some attempt has taken."""
    return [number for number in _numbers(files, name) if number > after]


def find_build(files: Files, name: DatasetName, number: int) -> str | None:
    """The build request that made a commit; None when its manifest is gone."""
    try:
        return _read_manifest(files, name, number).build_request_id or None
    except ProgressError:
        return None


def find_schema(files: Files, name: DatasetName, number: int) -> Schema | None:
    """The columns that a load gave the table; None when it did not say or its manifest is gone."""
    try:
        return _read_manifest(files, name, number).schema
    except ProgressError:
        return None


def _foreign(commit: Commit) -> Damage:
    text = f"version {commit.version} ({commit.operation}) was written by something other than Penstock"
    return Damage("foreign_write", text)


def _fold(files: Files, name: DatasetName, number: int) -> Progress:
    chain = [_read_manifest(files, name, number)]
    while not chain[-1].complete:
        parent = chain[-1].parent
        if parent is None or parent >= chain[-1].number:
            raise ProgressError("progress_unreadable", f"progress manifest {chain[-1].number} names no earlier parent")
        chain.append(_read_manifest(files, name, parent))
    consumed = {entry.file.path: entry for manifest in reversed(chain) for entry in manifest.files}
    last = chain[0]
    return Progress(
        number=number,
        chain=tuple(manifest.number for manifest in reversed(chain)),
        files=consumed,
        schema=last.schema,
        seen=last.seen,
        inputs=last.inputs,
        definition=last.definition,
        settings=last.settings,
        segments=last.segments,
        position=last.position,
    )


def _read_manifest(files: Files, name: DatasetName, number: int) -> Manifest:
    try:
        content = files.read(_path(name, number))
    except FileNotFoundError:
        raise ProgressError("progress_missing", f"progress manifest {number} is missing") from None
    manifest = _parse_once(content, number) if len(content) > _LARGE else _parse(content, number)
    if manifest.dataset != str(name) or manifest.number != number:
        raise ProgressError("progress_mismatch", f"progress manifest {number} belongs to {manifest.dataset}")
    return manifest


def _parse(content: bytes, number: int) -> Manifest:
    try:
        value = json.loads(content)
        if not isinstance(value, dict) or "format" not in value:
            raise ProgressError("progress_unreadable", f"progress manifest {number} is not a manifest")
        if value["format"] > FORMAT:
            raise ProgressError(
                "progress_newer",
                f"progress manifest {number} was written by a newer Penstock (format {value['format']})",
            )
        return _from_json(value)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise ProgressError("progress_unreadable", f"progress manifest {number} cannot be read") from None


_parse_once = lru_cache(maxsize=4)(_parse)
"""A stream reads the same long list of files for every batch; what the file says now still decides."""


def _numbers(files: Files, name: DatasetName) -> list[int]:
    return [int(match[1]) for file in files.names(f"{name.path}/{FOLDER}") if (match := _NAME.match(file))]


def _path(name: DatasetName, number: int) -> str:
    return f"{name.path}/{FOLDER}/{number:020d}.json"


def _to_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "dataset": manifest.dataset,
        "number": manifest.number,
        "parent": manifest.parent,
        "kind": manifest.kind.value,
        "complete": manifest.complete,
        "files": [{**asdict(e.file), "rows": e.rows, "hash": e.content_hash} for e in manifest.files],
        "schema": manifest.schema.to_json() if manifest.schema else None,
        "seen": seen_to_json(manifest.seen),
        "inputs": {name: asdict(mark) for name, mark in manifest.inputs.items()},
        "definition": manifest.definition,
        "settings": manifest.settings,
        "build_request_id": manifest.build_request_id,
        "segments": [asdict(segment) for segment in manifest.segments],
        "position": dict(manifest.position),
    }


def _from_json(value: dict[str, Any]) -> Manifest:
    schema = Schema.from_json(value["schema"]) if value["schema"] is not None else None
    return Manifest(
        dataset=value["dataset"],
        number=int(value["number"]),
        parent=int(value["parent"]) if value["parent"] is not None else None,
        kind=ManifestKind(value["kind"]),
        complete=bool(value["complete"]),
        files=tuple(
            ConsumedFile(RawFile(f["path"], f["size"], f["modified_ns"], f["etag"]), f["rows"], f["hash"])
            for f in value["files"]
        ),
        schema=schema,
        seen=seen_from_json(value["seen"]) if "seen" in value else _seen_as(schema),
        inputs={str(name): _mark_from_json(mark) for name, mark in value["inputs"].items()},
        definition=value["definition"],
        settings=value["settings"],
        build_request_id=value["build_request_id"],
        segments=tuple(Segment(**segment) for segment in value.get("segments", ())),
        position=value.get("position", {}),
    )


def _mark_from_json(value: Any) -> InputMark:
    if isinstance(value, int):  # format 1 kept versions only: such an input counts as changed
        return InputMark(-1, 0)
    return InputMark(int(value["version"]), int(value["at"]), str(value["columns"]))


def _seen_as(schema: Schema | None) -> tuple[SeenColumn, ...]:
    """What format 1 did not keep: all files had the types of the table then, and nobody knows how large their numbers are."""
    columns = schema.columns if schema else ()
    return tuple(SeenColumn(c.name, frozenset({c.type}), c.nullable, c.type == "bigint") for c in columns)
