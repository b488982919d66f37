"""Whether a build has committed to a table, when whoever committed could not say so any more. No JVM."""

from __future__ import annotations

from penstock.lake.delta_log import Commit, iter_commits
from penstock.lake.manifests import find_build
from penstock.model.names import DatasetName
from penstock.storage.files import Files


def find_own_commit(files: Files, name: DatasetName, build_request_id: str) -> Commit | None:
    """The newest numbered commit of a table, if this build made it."""
    for commit in iter_commits(files, name.path):
        if commit.number is not None:
            return commit if find_build(files, name, commit.number) == build_request_id else None
    return None
