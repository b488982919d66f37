"""Observing the raw files and the table of a staging dataset. No JVM."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import ConfigError, RawFileError, StorageError
from penstock.kinds.protocol import Needs, Workspace
from penstock.kinds.staging.progress import StagingProgress
from penstock.kinds.staging.raw_files import RawListing, hash_content, list_raw
from penstock.kinds.staging.raw_text import read_raw_footers
from penstock.kinds.staging.values import (
    KIND,
    FootersNeeded,
    OverlapsNeeded,
    StagingFiles,
    StagingObservation,
    StagingWork,
    compare_files,
)
from penstock.lake.delta_log import find_version
from penstock.model.contract import NO_CONTRACT, Contract
from penstock.model.dataset import Dataset, Found
from penstock.model.names import LONGEST, QUARANTINE_SUFFIX, STAGING_DATABASE, DatasetName
from penstock.model.plan import Action, Item, Problem, Reason, WorkItem
from penstock.model.progress import ConsumedFile, RawFile, TableState
from penstock.model.project import Project
from penstock.model.text_files import is_text_file
from penstock.storage.files import Files, open_files
from penstock.storage.footers import read_range
from penstock.storage.local import LocalFiles


@dataclass(frozen=True, slots=True)
class RawTable:
    """What raw has for one staging table."""

    files: tuple[RawFile, ...] = ()
    is_retired: bool = False
    """Its folder is gone from raw."""
    spellings: tuple[str, ...] = ()
    """The spellings of its name in raw, where there are several."""
    contract: Contract = NO_CONTRACT
    place: Files | None = None
    """The raw folder."""
    unlisted: StorageError | None = None
    """Why its folder cannot be listed."""


def open_raw(project: Project) -> Files | None:
    """The raw folder of a project; None when it has none."""
    if project.raw is None:
        return None
    files = open_files(project.raw.path, project.configuration)
    if isinstance(files, LocalFiles) and not files.root.is_dir() and os.path.lexists(files.root):
        hint = "if it is a link, restore what it leads to, such as a mount"
        raise StorageError(f"raw is {project.raw.path}, which is not a folder", hint=hint)
    if isinstance(files, LocalFiles) and project.raw.location and not files.root.exists():
        raise ConfigError(
            f"the raw folder {project.raw.path} does not exist",
            hint="create it, or correct raw: in penstock.yml",
            location=project.raw.location,
        )
    return files


def discover(workspace: Workspace) -> Found:
    """Tables that raw has files for, and those that it had files for before."""
    project = workspace.project
    raw = open_raw(project)
    listing = list_raw(raw, project.raw.layout) if raw is not None and project.raw else RawListing({})
    names = {*listing.tables, *listing.colliding}
    kept = [name for name in workspace.storage.folders(STAGING_DATABASE) if not name.endswith(QUARANTINE_SUFFIX)]
    names |= {name for name in kept if name not in names and _is_table(workspace.storage, name)}
    datasets = tuple(_to_dataset(name, listing, project, raw) for name in sorted(names))
    return Found(datasets, _find_bad_names(listing), _find_ignored(listing))


def _is_table(storage: Files, name: str) -> bool:
    return find_version(storage, DatasetName(STAGING_DATABASE, name).path) is not None


def _to_dataset(name: str, listing: RawListing, project: Project, raw: Files | None) -> Dataset:
    subject = RawTable(
        listing.tables.get(name, ()),
        name not in listing.tables,
        listing.colliding.get(name, ()),
        project.staging.get(name, NO_CONTRACT),
        raw,
        listing.unlisted.get(name),
    )
    return Dataset(DatasetName(STAGING_DATABASE, name), KIND, subject=subject)


def _find_bad_names(listing: RawListing) -> tuple[Item, ...]:
    found = []
    for spelled in listing.bad_names:
        problem = Problem(
            "bad_table_name",
            f"raw has {spelled if len(spelled) <= LONGEST else f'{spelled[:20]}...'}, which cannot be a table: names are "
            f"letters, digits and underscores, at most {LONGEST}, and do not end in {QUARANTINE_SUFFIX}",
            hint="rename it in raw",
        )
        name, reason = DatasetName(STAGING_DATABASE, spelled), Reason(problem.code, problem.message)
        found.append(WorkItem(name, KIND, Action.SKIP, (reason,), StagingWork(), problem=problem))
    return tuple(found)


def _find_ignored(listing: RawListing) -> tuple[str, ...]:
    if not listing.ignored:
        return ()
    count = len(listing.ignored)
    what = "files do not fit the raw layout and are" if count != 1 else "file does not fit the raw layout and is"
    return (f"{count} {what} ignored: {', '.join(listing.ignored[:3])}{', ...' if count > 3 else ''}",)


def observe(dataset: Dataset, state: TableState[StagingProgress]) -> StagingObservation:
    """The raw files of one table, compared with what it has loaded; RawFileError when they cannot be listed."""
    raw: RawTable = dataset.subject
    if raw.unlisted is not None:
        raise RawFileError(raw.unlisted.message, hint=raw.unlisted.hint)
    files = StagingFiles(new=raw.files)
    if state.payload is not None:
        known = state.payload.files
        files = compare_files(raw.files, known, lambda file: _content_hash(raw.place, file, known[file.path]))
    elif state.last_known is not None:
        paths = {file.path for file in raw.files}
        gone = tuple(entry for path, entry in state.last_known.files.items() if path not in paths)
        files = StagingFiles(new=raw.files, removed=gone)
    return StagingObservation(
        dataset.name,
        raw.files,
        state,
        files,
        raw.contract,
        is_retired=raw.is_retired,
        spellings=raw.spellings,
        readers=dataset.readers,
    )


def _content_hash(raw: Files | None, file: RawFile, known: ConsumedFile) -> str | None:
    """Object stores give an entity tag instead: when that differs, the file counts as changed.

    Only a file that Penstock itself was replacing is read there too: its new tag is not known before.
    """
    is_hashed = isinstance(raw, LocalFiles) or known.replacement is not None
    return hash_content(raw, file.path) if raw is not None and is_hashed else None


def observe_more(given: StagingObservation, needs: Needs, workspace: Workspace) -> StagingObservation:
    """Read the footers, or the ranges of values, that a decision asked for."""
    raw = open_raw(workspace.project)
    if raw is None:
        return given
    wanted: Any = needs.what
    if isinstance(wanted, OverlapsNeeded):
        found = {pair: _overlap(raw, given, *pair) for pair in wanted.pairs}
        return replace(given, overlaps={**given.overlaps, **found})
    try:
        return replace(given, footers={**given.footers, **_read_footers(raw, wanted, given.contract)})
    except RawFileError as error:
        return replace(given, unreadable=Problem.from_error(error))


def _read_footers(raw: Files, wanted: FootersNeeded, contract: Contract) -> Any:
    required = {name.lower() for name, column in contract.columns.items() if column.required}
    required |= {old.lower() for old, new in contract.renames.items() if new.lower() in required}
    return read_raw_footers(raw, wanted.paths, contract, required)


def _overlap(raw: Files, given: StagingObservation, old: str, new: str) -> bool:
    """Whether the last loaded file's values of one column and a new file's of another overlap, by their footers.

    Text files have no statistics.
    """
    added: Sequence[RawFile] = [file for file in given.files.new if not is_text_file(file.path)]
    if given.state.payload is None or not added:
        return False
    known = [path for path in given.state.payload.files if path != added[0].path and not is_text_file(path)]
    loaded = list(reversed(known))
    try:
        before = next((r for path in loaded[:3] if (r := read_range(raw, path, old))), None)
        after = read_range(raw, added[0].path, new)
        return bool(before and after and before[0] <= after[1] and after[0] <= before[1])
    except (RawFileError, TypeError, ValueError, OverflowError):  # values that cannot be compared suggest no rename
        return False
