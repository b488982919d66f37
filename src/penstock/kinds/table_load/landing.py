"""Rows of a source as Parquet files beside the table, until they are committed. No JVM.

Every load lands its rows in a folder of its own, which is removed after the commit. The first load of a timestamp strategy keeps
a journal: after a kill, what it landed is not read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from penstock.databases.contract import Landed, Look, Moment, SourceTable, Wanted
from penstock.errors import SourceError, StorageError, VerificationError
from penstock.faults import fault_point
from penstock.kinds.table_load.columns import spelled
from penstock.kinds.table_load.describe import landing_folder
from penstock.model.erasing import FileErased
from penstock.model.loads import LoadOptions
from penstock.model.names import DatasetName
from penstock.storage.files import Files

FIRST = "first"
"""The folder of a first load that can be continued."""
_JOURNAL = "journal.json"
_ROWS_OF_A_CHUNK = 100_000
Range = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class Journal:
    """How a first load was begun: what it continues with must be the same."""

    source: str
    settings: str
    columns: Sequence[Sequence[str]]
    ranges: tuple[Range, ...]
    taken_at: str
    watermark: str | None
    """The bound of the first moment; None when the source has none."""
    token: str | None
    stamp: str | None


@dataclass(frozen=True, slots=True)
class Landing:
    """The folder of one load."""

    files: Files
    name: DatasetName
    label: str

    @property
    def folder(self) -> str:
        return f"{landing_folder(self.name)}/{self.label}"

    def land(self, moment: Moment, wanted: Wanted, what: str) -> Landed:
        """Land rows once, and check their number against a count in the same view."""
        landed = moment.land(wanted, self.files, f"{self.folder}/{what}")
        fault_point("load.after_land", str(self.name))
        self.check(moment.count(wanted), landed.rows)
        return landed

    def land_chunks(
        self, moment: Moment, wanted: Wanted, plan: Chunks, done: Mapping[int, Landed] | None = None
    ) -> dict[int, Landed]:
        """Land ranges of the key in parallel; those that are done already are not read again."""
        known = dict(done or {})
        waiting = [number for number in range(len(plan.ranges)) if number not in known]
        with ThreadPoolExecutor(max_workers=max(1, min(plan.parallel, len(waiting)))) as pool:
            landed = list(pool.map(lambda number: self._land_chunk(moment, wanted, plan, number), waiting))
        return known | dict(zip(waiting, landed, strict=True))

    def _land_chunk(self, moment: Moment, wanted: Wanted, plan: Chunks, number: int) -> Landed:
        chosen = replace(wanted, chunk=plan.ranges[number], chunk_column=plan.column) if plan.column else wanted
        with moment.sibling() as sibling:
            landed = sibling.land(chosen, self.files, f"{self.folder}/chunk-{number:04d}")
        fault_point("load.after_chunk", str(self.name))
        if plan.is_kept:
            content = {"files": landed.files, "rows": landed.rows, "greatest": landed.greatest_cursor}
            text = json.dumps({**content, "nulls": landed.null_cursors}).encode()
            self.files.create(f"{self.folder}/done-{number:04d}.json", text)
            fault_point("load.after_note", str(self.name))
        return landed

    def check(self, counted: int, landed: int) -> None:
        """VerificationError when other rows were landed than the source counted."""
        if counted != landed:
            raise VerificationError(
                f"{self.name}: {landed} rows were read, but the source counts {counted}; nothing was written",
                hint="run again; if it stays so, the source does not give one consistent view",
            )

    def begin(self, journal: Journal) -> None:
        """Begin a first load that can be continued."""
        self.clear()
        text = json.dumps({name: getattr(journal, name) for name in Journal.__slots__})
        self.files.create(f"{self.folder}/{_JOURNAL}", text.encode())
        fault_point("load.after_journal", str(self.name))

    def read_journal(self) -> Journal | None:
        """How a first load was begun; None when there is nothing to continue."""
        with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
            value: dict[str, Any] = json.loads(self.files.read(f"{self.folder}/{_JOURNAL}"))
            ranges = tuple((since, until) for since, until in value.pop("ranges"))
            return Journal(ranges=ranges, **value)
        return None

    def find_done(self) -> dict[int, Landed]:
        """The chunks that were landed completely."""
        found = {}
        for name in self.files.names(self.folder):
            if name.startswith("done-"):
                with suppress(ValueError, KeyError, FileNotFoundError):
                    value = json.loads(self.files.read(f"{self.folder}/{name}"))
                    number = int(name.removeprefix("done-").removesuffix(".json"))
                    found[number] = Landed(tuple(value["files"]), value["rows"], value["greatest"], value["nulls"])
        return found

    def clear(self) -> None:
        """Remove the folder's files."""
        _remove(self.files, self.folder)


@dataclass(frozen=True, slots=True)
class Chunks:
    """How a table is read in parts."""

    ranges: tuple[Range, ...]
    column: str | None
    parallel: int
    is_kept: bool = False
    """Whether finished chunks are noted, so that they can be used after a kill."""


def plan_chunks(table: SourceTable, moment: Moment, wanted: Wanted, look: Look, options: LoadOptions) -> Chunks:
    """Ranges of the first key column; the whole table where it is small, or where parallel reads cannot see one moment."""
    key = next(iter((*options.keys, *look.primary_key)), None)
    parts = min(options.parallel * 4, (look.rows or 0) // _ROWS_OF_A_CHUNK)
    if key is None or parts < 2 or not table.has_one_moment:
        return Chunks(((None, None),), None, 1)
    column = spelled(look.columns, key)
    return Chunks(tuple(moment.split(wanted, column, parts)), column, options.parallel)


def total(landed: Sequence[Landed]) -> Landed:
    """Several landings as one; greatest cursors are compared by who needs them."""
    files = tuple(file for each in landed for file in each.files)
    return Landed(files, sum(each.rows for each in landed), None, sum(each.null_cursors for each in landed))


def remove_left_over(files: Files, name: DatasetName, *, keep_first: bool) -> None:
    """Remove what loads that were killed have landed; with `keep_first`, not what a first load can continue with."""
    for label in files.folders(landing_folder(name)):
        if not (keep_first and label == FIRST):
            _remove(files, f"{landing_folder(name)}/{label}")
    files.remove_empty_folders(landing_folder(name))


@contextmanager
def removed_after_errors(files: Files, name: DatasetName) -> Iterator[None]:
    """Remove what the block has landed if it fails.

    A first load can go on where its source was gone for a moment, or where something else failed. Rows that were refused are
    removed for good: they would be refused again after the source was repaired.
    """
    try:
        yield
    except Exception as error:
        is_refused = isinstance(error, SourceError | VerificationError) and not error.retryable
        with suppress(OSError, StorageError):  # the first error is the one to show
            remove_left_over(files, name, keep_first=not is_refused)
        raise


def erase_landed(files: Files, name: DatasetName, *, is_dry: bool) -> tuple[FileErased, ...]:
    """Remove all landed rows: whoever they are about, they can be read again."""
    found = files.walk(landing_folder(name))
    if not found:
        return ()
    size = sum(file.size for file in found)
    if not is_dry:
        remove_left_over(files, name, keep_first=False)
    place = files.spark_path(landing_folder(name))
    return (FileErased(place, len(found), len(found), 0, size, None if is_dry else 0),)


def _remove(files: Files, folder: str) -> None:
    """Remove files, the journal first: without it, nothing is continued."""
    paths = sorted((file.path for file in files.walk(folder)), key=lambda path: not path.endswith(_JOURNAL))
    for path in paths:
        with suppress(FileNotFoundError):
            files.remove(path)
    files.remove_empty_folders(folder)
