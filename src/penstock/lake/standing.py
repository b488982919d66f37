"""What a table stands for, to be stated again by a commit that changes no rows. No JVM.

Rewriting files and truncating the log leave a table's rows as they are, but need commits of their own. Such a commit carries a
copy of the newest progress manifest under a new number, with the newest version that changed rows: so the table stays up to date
for itself and for everything that reads it.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.lake.delta_log import Commit, iter_commits
from penstock.lake.manifests import read_manifest
from penstock.lake.progress import ENVELOPE, read_table_state
from penstock.model.names import DatasetName
from penstock.model.progress import Manifest
from penstock.storage.files import Files

PURGE = "REORG"
OPTIMIZE = "OPTIMIZE"
"""What Delta calls rewrites of files in its log."""


def read_standing(files: Files, name: DatasetName) -> Manifest | None:
    """What a table stands for now; None when it has no usable progress.

    A rewrite that was undone since counts as if it had never been.
    """
    state = read_table_state(files, name, ENVELOPE)
    if state.progress is None and (undone := _find_undone(files, name)) is not None:
        state = read_table_state(files, name, ENVELOPE, until=undone)
    if state.progress is None:
        return None
    manifest = read_manifest(files, name, state.progress.number)
    schema, version, at = state.progress.schema, state.data_version, state.data_at
    return replace(manifest, schema=schema, data_version=version, data_at=at)


def find_unverified(files: Files, name: DatasetName) -> list[int]:
    """The versions of rewrites that no numbered commit followed: whoever made them died before they were verified. Ascending."""
    found: list[int] = []
    for commit in iter_commits(files, name.path):
        if commit.number is not None or commit.changes_rows:
            break
        if commit.operation == PURGE:
            found.insert(0, commit.version)
    return found


def _find_undone(files: Files, name: DatasetName) -> int | None:
    """The version that the newest commit restored, when only rewrites came after that version: the rows are the same."""
    restore: Commit | None = None
    restored = -1
    for commit in iter_commits(files, name.path):
        if restore is None:
            if commit.operation != "RESTORE" or not commit.parameters.get("version", "").isdigit():
                return None
            restore, restored = commit, int(commit.parameters["version"])
        elif commit.version <= restored:
            return restored if commit.version == restored else None
        elif commit.number is not None or commit.changes_rows:
            return None
    return None
