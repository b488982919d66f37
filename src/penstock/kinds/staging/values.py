"""Staging as values: what was observed, what a decision still needs, and the work it decides on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from penstock.kinds.staging.progress import StagingProgress
from penstock.model.contract import NO_CONTRACT, Contract
from penstock.model.drift import ColumnChange
from penstock.model.names import DatasetName
from penstock.model.plan import Problem
from penstock.model.progress import ConsumedFile, RawFile, TableState
from penstock.model.schema import FileColumn, Footer, Schema, SeenColumn
from penstock.model.spec import DatasetSpec

KIND = "staging"
QUARANTINED_ROW = "raw_row"
"""The column of the quarantine table with the row of the raw file, as JSON."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A raw file to be read, with what its footer says, or what was found by reading a text file."""

    file: RawFile
    rows: int
    columns: tuple[FileColumn, ...] = ()
    bad_rows: int = 0
    """Records of a text file that cannot be read; they are among the rows."""
    digest: str | None = None
    """A hash of the text of a text file."""
    landed: str | None = None
    """For a text file: its copy as Parquet, in the storage."""
    landed_bad: str | None = None
    """The copy of the records that cannot be read, if there are any."""


@dataclass(frozen=True, slots=True)
class StagingFiles:
    """The raw files of one table compared with what the table has consumed."""

    new: tuple[RawFile, ...] = ()
    changed: tuple[RawFile, ...] = ()
    touched: tuple[ConsumedFile, ...] = ()
    """Same content, or the one that replaces it; another listing: only the new listing must be stored."""
    removed: tuple[ConsumedFile, ...] = ()


def compare_files(
    current: Sequence[RawFile], consumed: Mapping[str, ConsumedFile], content_hash: Callable[[RawFile], str | None]
) -> StagingFiles:
    """Sort raw files into new, changed, touched and removed; content is hashed only when the listing differs."""
    new: list[RawFile] = []
    changed: list[RawFile] = []
    touched: list[ConsumedFile] = []
    for file in current:
        known = consumed.get(file.path)
        if known is None:
            new.append(file)
        elif not known.file.is_same_listing(file):
            found = known.recognize(file, partial(content_hash, file))
            if found is not None:
                touched.append(found)
            else:
                changed.append(file)
    paths = {file.path for file in current}
    removed = tuple(known for path, known in consumed.items() if path not in paths)
    return StagingFiles(tuple(new), tuple(changed), tuple(touched), removed)


@dataclass(frozen=True, slots=True)
class StagingObservation:
    """Everything known about one staging table before the decision."""

    name: DatasetName
    current: tuple[RawFile, ...]
    state: TableState[StagingProgress] = field(default_factory=TableState)
    files: StagingFiles = field(default_factory=StagingFiles)
    contract: Contract = NO_CONTRACT
    footers: Mapping[str, Footer] = field(default_factory=dict)
    """The footers read so far, by path."""
    overlaps: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    """Of a column that is gone and one that new files add: whether their values have overlapping ranges."""
    unreadable: Problem | None = None
    """A raw file that cannot be read: its footer, or a record of a text file."""
    is_retired: bool = False
    spellings: tuple[str, ...] = ()
    readers: tuple[DatasetSpec, ...] = ()

    @property
    def payload(self) -> StagingProgress:
        return self.state.payload or StagingProgress()

    @property
    def schema(self) -> Schema | None:
        return self.state.schema

    def lacks(self, files: Sequence[RawFile]) -> FootersNeeded | None:
        """The footers of these files that were not read yet; None when all were."""
        missing = tuple(file.path for file in files if file.path not in self.footers)
        return FootersNeeded(missing) if missing else None

    def footers_of(self, files: Sequence[RawFile]) -> dict[str, Footer]:
        return {file.path: self.footers[file.path] for file in files}


@dataclass(frozen=True, slots=True)
class FootersNeeded:
    """Files whose footers must be read."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OverlapsNeeded:
    """Pairs of columns, gone and added, whose ranges of values must be compared."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StagingWork:
    """What a load of a staging table needs to know."""

    state: TableState[StagingProgress] = field(default_factory=TableState)
    files: tuple[NewFile, ...] = ()
    schema: Schema | None = None
    """The table's columns afterwards."""
    seen: tuple[SeenColumn, ...] = ()
    column_changes: tuple[ColumnChange, ...] = ()
    contract: Contract = NO_CONTRACT
    kept: tuple[ConsumedFile, ...] = ()
    """Files already in the table whose listing changed but not their content: refreshed with the next commit."""
    settings: str | None = None
    all_files: int = 0
    """How many files raw has for the table."""
    all_bytes: int = 0

    @property
    def bytes_read(self) -> int:
        return sum(new.file.size for new in self.files)

    @property
    def rows_read(self) -> int:
        return sum(new.rows for new in self.files)
