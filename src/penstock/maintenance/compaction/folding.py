"""Compacting one table: duplicates removed, small files merged, hidden rows left out. Each step can be repeated after a kill.

No file is removed here: Delta's retention stays, so that older versions can be read. The table is ours alone meanwhile, so no
writer of Penstock is in between; another program's commits are Delta's to reconcile, and a conflict is tried again.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.faults import fault_point
from penstock.lake.delta_log import find_version, iter_commits
from penstock.lake.leases import TERMS, Terms, hold_exclusive
from penstock.lake.log_facts import read_state
from penstock.lake.standing import OPTIMIZE, read_standing
from penstock.lake.stored_paths import to_relative
from penstock.lake.tables import Lake
from penstock.maintenance.compaction.duplicates import remove_duplicates
from penstock.maintenance.compaction.facts import find_small_files, note_checked, to_checked
from penstock.maintenance.tables.purge import find_codec, retrying_conflicts, verify_rewrite
from penstock.maintenance.tables.watch import Watch
from penstock.model.compaction import Policy
from penstock.model.names import DatasetName


@dataclass(frozen=True, slots=True)
class Folded:
    """What compacting one table did."""

    version: int
    files_merged: int = 0
    duplicates_removed: int = 0


def fold_table(
    lake: Lake, name: DatasetName, policy: Policy, build_request_id: str = "", terms: Terms = TERMS
) -> Folded:
    """Compact a table, as far as there is something to do, under its exclusive lease."""
    files = lake.files
    with hold_exclusive(files, name.path, "compaction", terms) as lease:
        removed = 0
        standing = read_standing(files, name)
        if policy.keys and standing is not None:
            watch = Watch(files, name, lease, find_version(files, name.path) or 0)
            removed = remove_duplicates(lake, watch, policy, standing, build_request_id)
            fault_point("compact.before_note", str(name))
            note_checked(files, name, to_checked(policy, lake.state(name)))
        merged = _merge_files(lake, name, policy, build_request_id)
        _restate(lake, name, build_request_id)
        fault_point("compact.after_commit", str(name))
        lake.forget_old_loads(name)
        return Folded(find_version(files, name.path) or 0, merged, removed)


def _merge_files(lake: Lake, name: DatasetName, policy: Policy, build_request_id: str) -> int:
    """Merge small files and rewrite those with hidden rows; the number of files that were replaced."""
    files = lake.files
    state = read_state(files, name.path)
    touched = [*find_small_files(state, policy.small_file_size), *state.hidden_in]
    if not touched:
        return 0
    codec = find_codec(files, name.path, [path for file in touched if (path := to_relative(file.path))])
    largest = max(policy.target_file_size, *(file.size for file in touched))
    fault_point("compact.before_files", str(name))
    retrying_conflicts()(lake.optimize, name, codec, policy.small_file_size, largest)
    fault_point("compact.after_files", str(name))
    standing, merged = read_standing(files, name), 0
    for version in _find_rewrites(lake, name, state.version):
        merged += verify_rewrite(lake, name, standing, version, build_request_id).files
    fault_point("compact.after_verify", str(name))
    return merged


def _find_rewrites(lake: Lake, name: DatasetName, since: int) -> list[int]:
    found = []
    for commit in iter_commits(lake.files, name.path):
        if commit.version <= since:
            break
        if commit.operation == OPTIMIZE:
            found.append(commit.version)
    return found


def _restate(lake: Lake, name: DatasetName, build_request_id: str) -> None:
    """Make the newest commit one with a number again: Delta may remove older ones from the log, and the progress with them.

    Not when another program has changed rows meanwhile: then the table no longer stands for what it stood for.
    """
    head = next(iter_commits(lake.files, name.path))
    standing = read_standing(lake.files, name)
    if head.number is None and standing is not None:
        lake.restate(name, standing, build_request_id)
