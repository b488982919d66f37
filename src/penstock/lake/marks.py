"""How far a reader of a table has read it, and where it goes on. No JVM.

A mark is the newest version that changed rows when the table was read, with its time. When the log was truncated, that commit is
gone: then the progress manifest of the commit that was kept says which version was the newest that changed rows.
"""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import takewhile

from penstock.lake.delta_log import MALFORMED, Commit, DamagedLogError, find_version, iter_commits
from penstock.lake.manifests import ProgressError, read_manifest
from penstock.model.names import DatasetName
from penstock.model.progress import InputMark
from penstock.storage.files import Files


def find_data(files: Files, name: DatasetName, commit: Commit) -> InputMark | None:
    """The newest change of rows, as far as this commit tells: it is one itself, or its manifest states one; else None."""
    if commit.changes_rows:
        return InputMark(commit.version, commit.timestamp_ms)
    if commit.number is not None:
        with suppress(ProgressError):
            manifest = read_manifest(files, name, commit.number)
            if manifest.data_version is not None:
                return InputMark(manifest.data_version, manifest.data_at or 0)
    return None


def find_start(files: Files, name: DatasetName, version: int, at: int) -> int | None:
    """The version after which a reader with this mark goes on; None when the table was recreated since, or that is unknown."""
    try:
        for commit in iter_commits(files, name.path):
            if not commit.changes_rows and find_data(files, name, commit) == InputMark(version, at):
                return commit.version
            if commit.version <= version:
                return version if (commit.version, commit.timestamp_ms) == (version, at) else None
    except DamagedLogError:
        return None
    return None


def find_hiding_requests(files: Files, name: DatasetName, version: int, at: int) -> frozenset[str] | None:
    """The requests whose keys were removed since this mark; None when rows changed in another way too, or that is unknown."""
    start, newest = find_start(files, name, version, at), find_version(files, name.path)
    if start is None or newest is None:
        return None
    try:
        later = list(takewhile(lambda commit: commit.version > start, iter_commits(files, name.path)))
        requests = {_read_request(files, name, commit) for commit in later if commit.changes_rows}
    except (DamagedLogError, ProgressError):
        return None
    known = frozenset(request for request in requests if request is not None)
    return known if len(known) == len(requests) and len(later) == newest - start else None


def find_newest_requests(files: Files, name: DatasetName) -> frozenset[str]:
    """The requests whose keys were removed by the newest changes of rows: nothing has brought any of these back since."""
    found: set[str] = set()
    expected = find_version(files, name.path)
    try:
        for commit in iter_commits(files, name.path):
            if commit.version != expected:  # a part of the log is gone
                break
            expected -= 1
            if commit.changes_rows:
                request = _read_request(files, name, commit)
                if request is None:
                    break
                found.add(request)
    except (DamagedLogError, ProgressError):
        return frozenset()
    return frozenset(found)


def _read_request(files: Files, name: DatasetName, commit: Commit) -> str | None:
    return read_manifest(files, name, commit.number).hides if commit.number is not None else None


def find_added_files(files: Files, name: DatasetName, version: int, at: int) -> list[str] | None:
    """The data files that came after this mark; None when rows were changed or removed too, or that is unknown.

    It is unknown when such a file was compacted already: its rows are in another file, with older ones.
    """
    start = find_start(files, name, version, at)
    if start is None:
        return None
    added: list[str] = []
    for later in range(start + 1, (find_version(files, name.path) or 0) + 1):
        try:
            lines = files.read(f"{name.path}/_delta_log/{later:020d}.json").splitlines()
            for action in map(json.loads, filter(None, lines)):
                if "remove" in action and (
                    action["remove"].get("dataChange", True) or action["remove"]["path"] in added
                ):
                    return None
                if "add" in action and action["add"].get("dataChange", True):
                    added.append(str(action["add"]["path"]))
        except (OSError, *MALFORMED):
            return None
    return added
