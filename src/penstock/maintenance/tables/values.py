"""What making a table's removal physical takes and gives, as values."""

from __future__ import annotations

from dataclasses import dataclass, field

DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Checksum:
    """Rows added up so that two sets of rows can be compared without keeping them; their order makes no difference."""

    rows: int
    total: int
    """The sum of the rows' hashes."""
    mixed: int
    """Their exclusive or."""

    def __str__(self) -> str:
        return f"{self.rows}:{self.total:x}:{self.mixed & (1 << 64) - 1:x}"


@dataclass(frozen=True, slots=True)
class Caution:
    """How careful removal is with writers that hold no lease; in seconds."""

    unknown_age: float = 7 * DAY
    """A file that no commit names is removed only when it is older."""
    settle: float = 60.0
    """A file that no commit names and that is younger than this may belong to a write in flight."""
    wait: float = 120.0
    """How long to wait for such a write; then nothing more is done."""


@dataclass(frozen=True, slots=True)
class Purged:
    """What the rewrite of files with hidden rows did."""

    version: int
    rows: int = 0
    """Hidden rows that are no longer in the table's files."""
    files: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    before: Checksum | None = None
    """Of the rows that stay, in the files that were rewritten; None when none was."""
    after: Checksum | None = None


@dataclass(frozen=True, slots=True)
class Removed:
    """What the removal of files did."""

    files: int = 0
    size: int = 0
    unknown_files: int = 0
    """Of these: files that no commit names, which were old enough."""
    young: tuple[str, ...] = ()
    """Files that no commit names and that are too young to be removed."""


@dataclass(frozen=True, slots=True)
class Physical:
    """What making a table's removal physical did."""

    table: str
    version_before: int
    version: int
    rows: int
    """Hidden rows that are gone."""
    files_rewritten: int
    bytes_before: int
    """Of the table's live files."""
    bytes_after: int
    bytes_rewritten: int
    checksum_before: Checksum | None
    checksum_after: Checksum | None
    files_removed: int
    bytes_removed: int
    log_files_removed: int
    earliest_version: int
    """The oldest version that can still be read."""
    young: tuple[str, ...] = field(default=())
