"""Truncating a table's log: what old commits and checkpoints say about removed rows is gone, and the table is the same.

A commit that changes nothing is made the head, with a checkpoint of its own; once that is proven, everything below goes, oldest
first. The properties that this needs are set for two commits. What they were is kept in a property meanwhile, so
that a run after a kill can set them back.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from penstock.errors import VerificationError
from penstock.faults import fault_point
from penstock.lake.delta_log import Commit, iter_commits
from penstock.lake.tables import Lake
from penstock.maintenance.tables.excerpt import remove_places
from penstock.maintenance.tables.log_facts import find_sidecars, read_facts, read_state
from penstock.maintenance.tables.log_names import (
    LAST_CHECKPOINT,
    LOG,
    SIDECARS,
    Checkpoint,
    find_checkpoints,
    find_outdated,
)
from penstock.maintenance.tables.proof import prove_checkpoint
from penstock.maintenance.tables.watch import Watch
from penstock.model.progress import Manifest
from penstock.storage.files import Files

_WHILE = {"delta.checkpointInterval": "1", "delta.deletedFileRetentionDuration": "interval 0 seconds"}
"""A checkpoint after every commit, which names no removed file."""
_BEFORE = "penstock.truncating"
_PROPERTY_CHANGES = frozenset({"SET TBLPROPERTIES", "UNSET TBLPROPERTIES"})


@dataclass(frozen=True, slots=True)
class Truncated:
    """What truncating a log did."""

    earliest: int
    """The oldest version that can still be read."""
    log_files: int = 0


def truncate_log(lake: Lake, watch: Watch, standing: Manifest | None, build_request_id: str) -> Truncated:
    """Remove everything of the log below a new, proven checkpoint; nothing when that has been done already."""
    files, name = lake.files, watch.name
    remove_places(files, name.path)
    restore_properties(lake, watch)
    known = _find_truncated(files, name.path)
    if known is not None:
        return Truncated(known)
    head, checkpoint = _write_head(lake, watch, standing, build_request_id)
    prove_checkpoint(lake, name, checkpoint, head.version)
    fault_point("truncation.after_proof", str(name))
    watch.check()
    removed = _remove_below(watch, checkpoint)
    fault_point("truncation.after_files", str(name))
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


def _write_head(
    lake: Lake, watch: Watch, standing: Manifest | None, build_request_id: str
) -> tuple[Commit, Checkpoint]:
    """A commit that changes nothing, with a checkpoint of its own."""
    files, name = lake.files, watch.name
    now = read_state(files, name.path).properties
    before = json.dumps({key: now.get(key) for key in _WHILE})
    watch.check()
    lake.set_properties(name, {**_WHILE, _BEFORE: before})
    watch.advance()
    fault_point("truncation.after_properties", str(name))
    head = next(iter_commits(files, name.path))  # a table without usable progress needs no number
    if standing is not None:
        head = lake.restate(name, standing, build_request_id)
        watch.note(head)
    fault_point("truncation.after_head", str(name))
    restore_properties(lake, watch)
    fault_point("truncation.after_restored", str(name))
    checkpoints = find_checkpoints(files.names(f"{name.path}/{LOG}"))
    found = next((each for each in checkpoints if each.version == head.version), None)
    if found is None:
        raise VerificationError(
            f"{name}: Delta wrote no checkpoint of version {head.version}; the log was left as it is"
        )
    return head, found


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


def _find_truncated(files: Files, table: str) -> int | None:
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
