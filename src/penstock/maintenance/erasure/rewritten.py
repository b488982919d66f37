"""Proving that hiding lost nobody else's rows, where it wrote files again: that is without deletion vectors.

It is done before the old files go. As long as they are there, their rows without the hidden keys must be those of the new files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.errors import StorageError, VerificationError
from penstock.faults import is_armed
from penstock.lake.delta_log import Commit, iter_commits
from penstock.lake.log_facts import LogState, read_state
from penstock.lake.log_names import LOG
from penstock.lake.stored_paths import to_relative
from penstock.maintenance.erasure.tombstones import Tombstones, name_of
from penstock.maintenance.tables.excerpt import excerpt_of
from penstock.maintenance.tables.purge import add_up
from penstock.maintenance.tables.values import Checksum
from penstock.model.dataset import Place
from penstock.model.names import DatasetName
from penstock.model.tombstones import Tombstone
from penstock.model.types import quote_name
from penstock.storage.files import Files
from penstock.transforms.arrow import to_frame
from penstock.transforms.suppress import TOMBSTONE, Screen

_ENTRY = re.compile(r"(?P<table>.+)\.(?P<number>\d{20})\.(values|rows)")


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """A commit that hid rows by writing files again; the files as the log describes them."""

    version: int
    number: int
    before: tuple[Mapping[str, Any], ...]
    after: tuple[Mapping[str, Any], ...]

    @property
    def has_new_files(self) -> bool:
        """False when files only got deletion vectors."""
        old, new = ({file["path"] for file in files} for files in (self.before, self.after))
        return bool(old) and (not new or not new <= old)


def verify_hiding(tombstones: Tombstones, place: Place, chosen: Sequence[Tombstone]) -> Checksum | None:
    """Compare the rows that stay before and after each commit that hid rows of these tombstones and wrote files again.

    Their checksum; None when there is no such commit, or its files are gone. VerificationError when they differ.
    """
    name, found = name_of(place.uri), list[Checksum]()
    kept = _find_kept(tombstones, name, chosen)
    for rewrite in _find_rewrites(tombstones.lake.files, name, kept) if kept else ():
        tables = [tombstones.vault.get_table(batch, entry) for batch, entry in kept[rewrite.number]]
        if hidden := [table for table in tables if TOMBSTONE in table.column_names]:
            found.append(_verify(tombstones, name, rewrite, place, hidden))
    return reduce(_add, found) if found else None


def _find_kept(
    tombstones: Tombstones, name: DatasetName, chosen: Sequence[Tombstone]
) -> dict[int, list[tuple[str, str]]]:
    """Batch and name of what the vault has of commits that hid rows, or of loads that left some out, by their numbers.

    Keys that were found in source files have numbers too, but these are no commits.
    """
    found: dict[int, list[tuple[str, str]]] = {}
    for batch in dict.fromkeys(each.batch for each in chosen):
        for entry in tombstones.vault.names(batch):
            if (match := _ENTRY.fullmatch(entry)) and match["table"] == str(name):
                found.setdefault(int(match["number"]), []).append((batch, entry))
    return found


def _find_rewrites(files: Files, name: DatasetName, numbers: Collection[int]) -> Iterator[_Rewrite]:
    """The commits with these numbers that hid rows by writing files again, and whose files are all there."""
    for commit in iter_commits(files, name.path):
        if commit.number is not None and commit.number in numbers and _hides(commit):
            rewrite = _read_rewrite(files, name, commit.version, commit.number)
            paths = {str(file["path"]) for file in (*rewrite.before, *rewrite.after)}
            if rewrite.has_new_files and all(files.exists(f"{name.path}/{to_relative(path)}") for path in paths):
                yield rewrite


def _hides(commit: Commit) -> bool:
    """Whether a commit only deletes: a load of change events can be a MERGE too, but inserts."""
    return commit.operation == "MERGE" and commit.parameters.get("notMatchedPredicates") == "[]"


def _read_rewrite(files: Files, name: DatasetName, version: int, number: int) -> _Rewrite:
    lines = files.read(f"{name.path}/{LOG}/{version:020d}.json").splitlines()
    actions = [json.loads(line) for line in lines if line.strip()]
    before, after = (tuple(action[kind] for action in actions if kind in action) for kind in ("remove", "add"))
    return _Rewrite(version, number, before, after)


def _verify(
    tombstones: Tombstones, name: DatasetName, rewrite: _Rewrite, place: Place, kept: Sequence[pa.Table]
) -> Checksum:
    lake = tombstones.lake
    state = _read_state_of(lake.files, name, rewrite.version)
    with (
        excerpt_of(lake.files, name.path, state, rewrite.before) as old,
        excerpt_of(lake.files, name.path, state, rewrite.after) as new,
    ):
        rows, written = (lake.session.read.format("delta").load(lake.files.spark_path(each)) for each in (old, new))
        before, after = add_up(_leave_out(tombstones, rows, place, kept)), add_up(written)
    if before == after and not is_armed("hide.unequal"):
        return before
    raise VerificationError(
        f"{name}: the rows that should stay are not the same after others were hidden in version {rewrite.version} "
        f"({before} before, {after} after); no file was removed",
        hint=f"version {rewrite.version - 1} still has all rows: keep a copy of the table's folder and report this",
    )


def _read_state_of(files: Files, name: DatasetName, version: int) -> LogState:
    """The table as the commit left it, for its columns may have other types now; as it is now, where the log begins later."""
    try:
        return read_state(files, name.path, until=version)
    except StorageError:
        return read_state(files, name.path)


def _leave_out(tombstones: Tombstones, rows: DataFrame, place: Place, kept: Sequence[pa.Table]) -> DataFrame:
    """The rows without those that were hidden: by their keys, or by their whole text where rows are JSON text."""
    if place.json_column is None:
        ids = {id_ for table in kept for id_ in table.column(TOMBSTONE).to_pylist()}
        hidden = [each for each in tombstones.store.read() if each.id in ids]
        return Screen((tombstones.keys_of(hidden),)).drop(rows)
    gone = to_frame(tombstones.lake.session, pa.concat_tables([table.select([place.json_column]) for table in kept]))
    left = rows.join(F.broadcast(gone), place.json_column, "left_anti")
    return left.select(*map(quote_name, rows.columns))  # a join by name puts that column first


def _add(one: Checksum, other: Checksum) -> Checksum:
    return Checksum(one.rows + other.rows, one.total + other.total, one.mixed ^ other.mixed)
