"""Truncating a table's log: what old commits and checkpoints say about removed rows is gone, and the table is the same.

A commit that changes nothing is made the head, with a checkpoint of its own; once that is proven, everything below goes, oldest
first. The properties that this needs are set before the rewrite, and set back after the head. What they were is kept in a
property meanwhile, so that a run after a kill can set them back.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from penstock.errors import VerificationError
from penstock.faults import fault_point
from penstock.lake.delta_log import Commit, iter_commits
from penstock.lake.log_facts import find_sidecars, read_facts, read_state
from penstock.lake.log_names import (
    LAST_CHECKPOINT,
    LOG,
    SIDECARS,
    Checkpoint,
    find_checkpoints,
    find_outdated,
)
from penstock.lake.tables import Lake
from penstock.maintenance.tables.proof import prove_checkpoint
from penstock.maintenance.tables.watch import Watch
from penstock.model.progress import Manifest
from penstock.storage.files import Files

_INTERVAL = "delta.checkpointInterval"
_RETENTION = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
"""So that the checkpoint names no removed file."""
_BEFORE = "penstock.truncating"
_PROPERTY_CHANGES = frozenset({"SET TBLPROPERTIES", "UNSET TBLPROPERTIES"})


@dataclass(frozen=True, slots=True)
class Truncated:
    """What truncating a log did."""

    earliest: int
    """The oldest version that can still be read."""
    log_files: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """The commit that becomes the oldest one, and its checkpoint."""

    version: int
    checkpoint: Checkpoint


def prepare_head(lake: Lake, watch: Watch, commits: int) -> None:
    """Let the head get a checkpoint that names no removed file; it is the commit that comes after this many others from now on.

    The interval is the head's own version, so that no other commit writes a checkpoint meanwhile.
    """
    now = read_state(lake.files, watch.name.path).properties
    wanted = {_INTERVAL: str(watch.version + 1 + commits), **_RETENTION}
    before = json.dumps({key: now.get(key) for key in wanted})
    watch.check()
    lake.set_properties(watch.name, {**wanted, _BEFORE: before})
    watch.advance()
    fault_point("truncation.after_properties", str(watch.name))


def commit_head(lake: Lake, watch: Watch, standing: Manifest | None, build_request_id: str) -> Head:
    """Commit the head, and give the table its properties back; a table without usable progress needs no commit of its own."""
    name = watch.name
    if standing is not None:
        watch.note(lake.restate(name, standing, build_request_id))
    version = watch.version
    fault_point("truncation.after_head", str(name))
    restore_properties(lake, watch)
    fault_point("truncation.after_restored", str(name))
    checkpoints = find_checkpoints(lake.files.names(f"{name.path}/{LOG}"))
    found = next((each for each in checkpoints if each.version == version), None)
    if found is None:
        raise VerificationError(f"{name}: Delta wrote no checkpoint of version {version}; the log was left as it is")
    return Head(version, found)


def truncate_log(lake: Lake, watch: Watch, head: Head) -> Truncated:
    """Remove everything of the log below the head, once its checkpoint is proven."""
    prove_checkpoint(lake, watch.name, head.checkpoint, head.version)
    fault_point("truncation.after_proof", str(watch.name))
    watch.check()
    removed = _remove_below(watch, head.checkpoint)
    fault_point("truncation.after_files", str(watch.name))
    return Truncated(head.version, removed)


def restore_properties(lake: Lake, watch: Watch) -> None:
    """Give the table its properties back, where a truncation has changed them, also one that was killed."""
    properties = read_state(lake.files, watch.name.path).properties
    if _BEFORE not in properties:
        return
    before: dict[str, str | None] = json.loads(properties[_BEFORE])
    given: dict[str, str | None] = {key: value for key, value in before.items() if value is not None}
    unset: dict[str, str | None] = dict.fromkeys([*(key for key in before if key not in given), _BEFORE])
    # The note of what they were goes last: a kill in between is found by it.
    for change in (given, unset) if given else (unset,):
        watch.check()
        lake.set_properties(watch.name, change)
        watch.advance()


def _remove_below(watch: Watch, checkpoint: Checkpoint) -> int:
    """Remove the files of lower versions, oldest first, and then sidecars that no checkpoint needs any more."""
    files, folder = watch.files, f"{watch.name.path}/{LOG}"
    _check_pointer(files, watch, checkpoint)
    outdated = find_outdated(files.names(folder), checkpoint.version, checkpoint.names)
    kept = [
        name
        for each in find_checkpoints(files.names(folder))
        if each.version >= checkpoint.version
        for name in each.names
    ]
    needed = set(find_sidecars(files, watch.name.path, [name for name in kept if name not in outdated]))
    sidecars = [
        f"{SIDECARS}/{name}"
        for name in files.names(f"{folder}/{SIDECARS}")
        if name.lstrip(".").removesuffix(".crc") not in needed
    ]
    for name in (*outdated, *sidecars):
        watch.lease.check()
        with suppress(FileNotFoundError):
            files.remove(f"{folder}/{name}")
        fault_point("truncation.after_file", str(watch.name))
    files.remove_empty_folders(f"{folder}/{SIDECARS}")
    return len(outdated) + len(sidecars)


def _check_pointer(files: Files, watch: Watch, checkpoint: Checkpoint) -> None:
    """The file that tells readers where to begin must not point to what is removed."""
    try:
        version = int(json.loads(files.read(f"{watch.name.path}/{LOG}/{LAST_CHECKPOINT}"))["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        version = -1
    if version < checkpoint.version:
        raise VerificationError(
            f"{watch.name}: {LAST_CHECKPOINT} points to version {version}, not to the new checkpoint; the log was left as it is"
        )


def find_truncated(files: Files, table: str) -> int | None:
    """The version at which the log was truncated, when nothing but changes of properties has happened since; else None."""
    facts = read_facts(files, table)
    names = files.names(f"{table}/{LOG}")
    if not facts.checkpoints or facts.named - facts.state.files:
        return None
    first = facts.checkpoints[0]
    complete = [each for each in find_checkpoints(names) if each.version == first]
    later = _commits_from(files, table, first)
    is_quiet = all(commit.operation in _PROPERTY_CHANGES for commit in later[:-1])
    is_head = bool(later) and is_quiet and later[-1].version == first and not later[-1].changes_rows
    return first if is_head and not find_outdated(names, first, complete[0].names) else None


def _commits_from(files: Files, table: str, version: int) -> list[Commit]:
    """The commits from this version on, newest first."""
    found = []
    for commit in iter_commits(files, table):
        if commit.version < version:
            break
        found.append(commit)
    return found
