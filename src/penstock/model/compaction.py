"""When a table needs maintenance, and what was done to it, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from penstock.errors import Location
from penstock.model.names import DatasetName
from penstock.model.plan import Problem
from penstock.model.tombstones import Tombstone

DAY = 24 * 3600


@dataclass(frozen=True, slots=True)
class Policy:
    """When maintenance of one table is due, and how it is done."""

    target_file_size: int = 128 * 10**6
    """Small files are merged up to this size, in bytes."""
    most_small_files: int = 50
    """With more small files than this, compaction is due."""
    most_hidden_rows: float = 0.1
    """With a greater share of rows that are deleted but still in the files, compaction is due."""
    physical_within: int = 30 * DAY
    """The greatest age of a tombstone, in seconds, before it must be physical."""
    keys: tuple[str, ...] = ()
    """The columns that identify a row; of several rows with the same key, compaction keeps the last."""
    keep_last_by: tuple[str, ...] = ()
    """The columns that order the rows of a key."""
    location: Location | None = None
    """Where the policy of a table is declared."""
    largest_small_file: int | None = None
    """No file of this size or more is a small file, whatever the target is."""

    @property
    def small_file_size(self) -> int:
        """A smaller file is a small file: at least four of them fit into one."""
        wanted = self.target_file_size // 4
        return wanted if self.largest_small_file is None else min(wanted, self.largest_small_file)

    @property
    def at_once(self) -> Policy:
        """The same without patience: whatever can be done is due."""
        return replace(self, most_small_files=1, most_hidden_rows=0.0, physical_within=0)


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The policies of a project: one for all tables, and those of tables that differ."""

    default: Policy = field(default_factory=Policy)
    tables: Mapping[DatasetName, Policy] = field(default_factory=dict)

    def policy_of(self, name: DatasetName) -> Policy:
        return self.tables.get(name, self.default)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a table's log and the tombstones say, as far as a policy asks."""

    name: DatasetName
    version: int
    files: int = 0
    size: int = 0
    small_files: int = 0
    """Small files that could be merged with another one of the same partition."""
    hidden_files: int = 0
    """Files with a deletion vector."""
    hidden_rows: int = 0
    """Rows in files that a deletion vector hides."""
    rows: int | None = None
    """Rows in all files, hidden ones included; None when they were not counted."""
    small_rows: int = 0
    """Of these: rows in small files that could be merged."""
    hidden_in_small: int = 0
    """Of these: rows that a deletion vector hides."""
    log_entries: int = 0
    tombstones: int = 0
    """Tombstones that are not yet physical."""
    tombstone_rows: int = 0
    """Rows that these hide."""
    oldest_tombstone: int | None = None
    """When the oldest of these was added, in nanoseconds since 1970."""
    has_unchecked_keys: bool = False
    """Keys are declared, and rows changed since they were last checked."""
    unsearched_files: int = 0
    """Source files that came after an erasure, and were not yet searched for erased keys."""

    @property
    def visible_rows(self) -> int | None:
        """The rows that a reader sees."""
        return None if self.rows is None else self.rows - self.hidden_rows

    @property
    def physical_rows(self) -> int | None:
        """Visible rows, and hidden ones that are still on storage.

        Rows of tombstones are hidden by vectors, or in files that the table no longer has; the first are counted once.
        """
        visible = self.visible_rows
        return None if visible is None else visible + max(self.hidden_rows, self.tombstone_rows)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compaction did to one table."""

    table: DatasetName
    base_rows: int
    """Rows in files that needed no merging."""
    change_rows: int
    """Rows in small files, and hidden rows."""
    files_merged: int
    final_rows: int
    tombstones_applied: int
    rows_dropped: int
    """By these tombstones."""
    duplicates_removed: int
    bytes_before: int
    bytes_after: int
    files_before: int
    files_after: int
    version: int

    @property
    def is_changed(self) -> bool:
        """Whether there was something to do."""
        return bool(self.files_merged or self.tombstones_applied or self.duplicates_removed)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "table": str(self.table)}


def sum_up(
    before: TableFacts,
    after: TableFacts,
    applied: Sequence[Tombstone] = (),
    *,
    files_merged: int = 0,
    duplicates_removed: int = 0,
) -> Compacted:
    """What was done to a table, from what was known before and is known after; both with their rows counted."""
    rows, physical = before.rows or 0, before.physical_rows or 0
    hidden = before.hidden_rows - before.hidden_in_small + physical - rows
    return Compacted(
        table=before.name,
        base_rows=rows - before.small_rows,
        change_rows=before.small_rows + hidden,
        files_merged=files_merged,
        final_rows=after.visible_rows or 0,
        tombstones_applied=len(applied),
        rows_dropped=sum(each.rows for each in applied),
        duplicates_removed=duplicates_removed,
        bytes_before=before.size,
        bytes_after=after.size,
        files_before=before.files,
        files_after=after.files,
        version=after.version,
    )


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something that was due and could not be done; the rest was."""

    what: str
    """A table, or the request of an erasure."""
    problem: Problem

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, **self.problem.to_json()}


@dataclass(frozen=True, slots=True)
class Maintained:
    """What `penstock maintain` did: nothing of it where nothing was due."""

    tables: tuple[Compacted, ...] = ()
    receipts: tuple[str, ...] = ()
    """The ids of the receipts of what was erased."""
    store_files_merged: int = 0
    """Files of the store of tombstones."""
    files_searched: int = 0
    """Source files that came after an erasure, and were searched for erased keys."""
    blocked: tuple[Blocked, ...] = ()

    @property
    def summary(self) -> str:
        """A line about all of it."""
        done = f"{len(self.tables)} tables compacted, {len(self.receipts)} erasures"
        return f"{done}, {len(self.blocked)} blocked" if self.blocked else done

    @property
    def is_empty(self) -> bool:
        done = self.tables or self.receipts or self.store_files_merged or self.files_searched
        return not (done or self.blocked)

    def to_json(self) -> dict[str, Any]:
        return {
            "tables": [each.to_json() for each in self.tables],
            "receipts": list(self.receipts),
            "store_files_merged": self.store_files_merged,
            "files_searched": self.files_searched,
            "blocked": [each.to_json() for each in self.blocked],
        }
