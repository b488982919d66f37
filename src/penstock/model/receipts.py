"""The receipt of an erasure, as a value: what was asked, what was removed, and how it was verified. It has no personal data.

Keys appear as keyed hashes only. The reason of a request is left out, because people write free text there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from penstock.model.tombstones import Tombstone

FORMAT = 1

Nanoseconds = Annotated[int, "time"]
"""A time since 1970; JSON has it as text."""
LargeNumber = Annotated[int, "text"]
"""JSON has it as text: many programs round numbers of more than 53 bits."""

UNREACHABLE = (
    "Backups and copies of the storage, the raw folder, the change files or the event log.",
    "Older versions and soft-deleted objects that an object store keeps (versioning, retention, replication).",
    "Free blocks of file systems and disks, and snapshots of volumes.",
    "Copies outside the project: exports, caches of query engines and BI tools, data in the systems that delivered the rows.",
    "The write-ahead log, dead rows, replicas and archives of a database server.",
    "Temporary files of Spark where `spark.local.dir` is set, and of sessions and clusters that Penstock did not start.",
    "Memory, swap space and logs of programs and services other than Penstock.",
)
"""What no erasure by Penstock can reach: the owner of the data has to see to it."""


@dataclass(frozen=True, slots=True)
class ErasedKey:
    """One key that was erased, as its tombstone names it."""

    tombstone: str
    table: str
    key_hash: str
    """HMAC-SHA256 of the key, in hexadecimal."""
    secret_id: str
    actor: str
    """Who asked for it to be done."""
    requested_at: Nanoseconds


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum of rows that does not depend on their order."""

    rows: int
    sum: LargeNumber
    """The sum of the 64-bit hashes of all rows."""
    xor: LargeNumber
    """The same hashes, combined by exclusive or."""


@dataclass(frozen=True, slots=True)
class ErasedTable:
    """What was done to one table."""

    table: str
    rows_removed: int
    files_rewritten: int
    files_removed: int
    log_files_removed: int
    bytes_before: int
    bytes_after: int
    version_before: int
    version_after: int
    survivors_before: Checksum | None = None
    """Of the rows that stay, in the files that were rewritten. None for a table that was computed again, or had no such rows."""
    survivors_after: Checksum | None = None

    @property
    def has_checksums(self) -> bool:
        """Whether rows that stay were compared."""
        return self.survivors_before is not None or self.survivors_after is not None


@dataclass(frozen=True, slots=True)
class ErasedSource:
    """What was done to the files of one source: raw files, change files, stored change events."""

    place: str
    files_rewritten: int
    records_removed: int


@dataclass(frozen=True, slots=True)
class SearchCount:
    """How many values were looked for in one way."""

    how: str
    values: int


@dataclass(frozen=True, slots=True)
class SearchedPlace:
    """How much was searched at one place."""

    place: str
    files: int
    bytes: int
    exists: bool


@dataclass(frozen=True, slots=True)
class SearchMethod:
    """How much was searched in one way."""

    method: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ScanNote:
    """A file of which something could not be decoded, and why."""

    place: str
    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class ScanSummary:
    """What the residue scan searched and found."""

    values: tuple[SearchCount, ...]
    places: tuple[SearchedPlace, ...]
    methods: tuple[SearchMethod, ...]
    names: int
    """Names of files and folders that were searched."""
    hits: int
    unreadable: int
    inside: int
    """Occurrences inside a longer value, which is another value."""
    undecoded: tuple[ScanNote, ...]
    """Searched as bytes."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was erased, and how it was proven."""

    id: str
    project: str
    subject: str
    """The name of the kind of person, such as `customer`; empty for keys of single tables."""
    keys: tuple[ErasedKey, ...]
    tables: tuple[ErasedTable, ...]
    sources: tuple[ErasedSource, ...]
    events_redacted: int
    scan: ScanSummary
    started_at: Nanoseconds
    finished_at: Nanoseconds
    tool_version: str
    unreachable: tuple[str, ...] = UNREACHABLE
    format: int = FORMAT

    @property
    def rows_removed(self) -> int:
        """Of all tables."""
        return sum(table.rows_removed for table in self.tables)

    @property
    def records_removed(self) -> int:
        """Of all sources."""
        return sum(source.records_removed for source in self.sources)

    @property
    def secret_ids(self) -> tuple[str, ...]:
        """The secrets that the hashes of the keys were made with."""
        return tuple(dict.fromkeys(key.secret_id for key in self.keys))

    @property
    def problems(self) -> tuple[str, ...]:
        """Why this is not the receipt of a complete erasure; nothing if it is."""
        found = [] if self.keys else ["no key was erased"]
        found += [
            f"the checksums of {each.table} before and after are not equal"
            for each in self.tables
            if each.survivors_before != each.survivors_after
        ]
        if self.scan.hits:
            found.append("the scan found erased values")
        if self.scan.unreadable:
            found.append("the scan could not read every file")
        return tuple(found)


def to_erased_keys(tombstones: Sequence[Tombstone]) -> tuple[ErasedKey, ...]:
    """Tombstones as a receipt names them: by their hashes, without the reason."""
    return tuple(
        ErasedKey(each.id, str(each.table), each.key_hash, each.secret_id, each.actor, each.created_at)
        for each in tombstones
    )
