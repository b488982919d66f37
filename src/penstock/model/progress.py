"""What a table has consumed, as values: manifests, the progress they fold to, and the state of a table on storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.model.schema import Schema, SeenColumn


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file below the raw folder as a listing shows it."""

    path: str
    size: int
    modified_ns: int | None = None
    etag: str | None = None

    def is_same_listing(self, other: RawFile) -> bool:
        """Whether nothing a listing can show has changed; only then is the content not looked at."""
        return (self.size, self.modified_ns, self.etag) == (other.size, other.modified_ns, other.etag)


@dataclass(frozen=True, slots=True)
class ConsumedFile:
    """A raw file whose rows are in the table, with what is needed to notice that it changed."""

    file: RawFile
    rows: int
    content_hash: str | None = None


class ManifestKind(StrEnum):
    """A load changed the table's rows; a fence only made sure that older attempts can no longer commit."""

    LOAD = "load"
    FENCE = "fence"


@dataclass(frozen=True, slots=True)
class InputMark:
    """What a derived table remembers of an input: the last version that changed its rows, and the columns that are read.

    The time tells a table from another one that was made anew in its place, with the same version.
    """

    version: int
    at: int
    columns: str = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a target's auxiliary table: events that one committed attempt wrote, in one file or folder."""

    name: str
    rows: int
    size: int
    truncates: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """One attempt to change a table, written before the table's commit and never changed after.

    `files` holds what this attempt adds, or everything the table holds when `complete` is set.
    """

    dataset: str
    number: int
    parent: int | None
    kind: ManifestKind = ManifestKind.LOAD
    complete: bool = True
    files: tuple[ConsumedFile, ...] = ()
    schema: Schema | None = None
    seen: tuple[SeenColumn, ...] = ()
    inputs: Mapping[str, InputMark] = field(default_factory=dict)
    definition: str | None = None
    settings: str | None = None
    build_request_id: str = ""
    segments: tuple[Segment, ...] = ()
    """The auxiliary table of an AutoCDC target: all segments that count once this attempt is committed."""
    position: Mapping[str, Any] = field(default_factory=dict)
    """How far a change feed was read, and what else the next batch must know; values as JSON has them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the table's committed rows stand for, folded from the chain of committed manifests."""

    number: int
    chain: tuple[int, ...]
    files: Mapping[str, ConsumedFile] = field(default_factory=dict)
    schema: Schema | None = None
    seen: tuple[SeenColumn, ...] = ()
    inputs: Mapping[str, InputMark] = field(default_factory=dict)
    definition: str | None = None
    settings: str | None = None
    segments: tuple[Segment, ...] = ()
    position: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Damage:
    """Why a table's progress cannot be used; the plan turns it into a rebuild with this reason."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class TableState:
    """A table on storage as it is now, read without a JVM.

    `number` is the last committed transaction number; `pending` tells that attempts with higher numbers exist
    that did not commit (dead, or still running somewhere): an append must fence them off first.
    """

    version: int | None = None
    number: int | None = None
    progress: Progress | None = None
    damage: Damage | None = None
    pending: bool = False
    last_known: Mapping[str, ConsumedFile] = field(default_factory=dict)
    """With damage: the files that the newest readable manifest speaks of, so that a rebuild loses none unnoticed."""
    data_version: int | None = None
    """The newest version that changed rows; others only changed properties, names or the layout of files."""
    data_at: int | None = None
    """When that was, in milliseconds."""

    @property
    def exists(self) -> bool:
        return self.version is not None
