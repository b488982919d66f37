"""Whether a build has committed to a table, when whoever committed could not say so any more. No JVM."""

from __future__ import annotations

from penstock.lake.delta_log import Commit, iter_commits
from penstock.lake.manifests import find_manifest
from penstock.model.names import DatasetName
from penstock.model.progress import Entry, Manifest
from penstock.storage.files import Files


def find_own_commit(files: Files, name: DatasetName, build_request_id: str) -> Commit | None:
    """The newest numbered commit of a table, if it ends a load of this build.

    A fence, which has no rows, is passed over. A step, such as the creation of an empty table, ends nothing: if the load was
    stopped after it, the rows are missing.
    """
    for commit in iter_commits(files, name.path):
        if commit.number is None:
            continue
        manifest = find_manifest(files, name, commit.number)
        if manifest is None or manifest.entry is not Entry.FENCE:
            return commit if manifest is not None and _ends_load(manifest, build_request_id) else None
    return None


def _ends_load(manifest: Manifest, build_request_id: str) -> bool:
    return manifest.build_request_id == build_request_id and not manifest.is_step
