"""Progress as values: progress manifests, what they add up to, and the state of a table on storage.

A progress manifest is an envelope that every kind of dataset shares, around a payload that belongs to the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from penstock.model.schema import Schema

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class RawFile:
    """A source file as a listing shows it."""

    path: str
    size: int
    modified_ns: int | None = None
    etag: str | None = None

    def is_same_listing(self, other: RawFile) -> bool:
        """Whether the listing shows no change; otherwise the content is compared."""
        return (self.size, self.modified_ns, self.etag) == (other.size, other.modified_ns, other.etag)


@dataclass(frozen=True, slots=True)
class NewContent:
    """The content that replaces that of a consumed file: the same without records that were erased."""

    size: int
    content_hash: str
    rows: int

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> NewContent:
        size, hash_, rows = value["size"], value["hash"], value["rows"]
        return NewContent(check_type(size, int), check_type(hash_, str), check_type(rows, int))


@dataclass(frozen=True, slots=True)
class ConsumedFile:
    """A source file whose rows are in the table, with what is needed to detect that it changed."""

    file: RawFile
    rows: int
    content_hash: str | None = None
    replacement: NewContent | None = None
    """While Penstock itself replaces the file: this content counts as consumed too."""

    def recognize(self, file: RawFile, content_hash: Callable[[], str | None]) -> ConsumedFile | None:
        """The entry as it should be for the file in this listing; None when the file has a content that was not consumed.

        The content is hashed only when the listing differs and the size is one that is known.
        """
        if self.file.is_same_listing(file):
            return self
        new = self.replacement
        is_old_size = self.content_hash is not None and file.size == self.file.size
        is_new_size = new is not None and file.size == new.size
        found = content_hash() if is_old_size or is_new_size else None
        if found is not None and is_old_size and found == self.content_hash:
            return replace(self, file=file)
        if found is not None and new is not None and is_new_size and found == new.content_hash:
            return self.settle(file)
        return None

    def settle(self, file: RawFile) -> ConsumedFile:
        """The entry once the file has its new content; what was not counted or hashed before is not either."""
        new = self.replacement
        if new is None:
            return replace(self, file=file)
        hash_ = new.content_hash if self.content_hash is not None else None
        return ConsumedFile(file, new.rows if self.rows else 0, hash_)

    def to_json(self) -> dict[str, Any]:
        file, new = self.file, self.replacement
        listing = {"path": file.path, "size": file.size, "modified_ns": file.modified_ns, "etag": file.etag}
        more = {"replacement": {"size": new.size, "hash": new.content_hash, "rows": new.rows}} if new else {}
        return {**listing, "rows": self.rows, "hash": self.content_hash, **more}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> ConsumedFile:
        """Read what `to_json` wrote; TypeError for values of other types, which must not pass for another file."""
        path, etag, hash_ = check_type(value["path"], str), value["etag"], value["hash"]
        size, modified, rows = value["size"], value["modified_ns"], value["rows"]
        file = RawFile(path, check_type(size, int), check_type(modified, int, None), check_type(etag, str, None))
        new = NewContent.from_json(value["replacement"]) if "replacement" in value else None
        return ConsumedFile(file, check_type(rows, int), check_type(hash_, str, None), new)


def check_type(value: Any, *types: type | None) -> Any:
    """The value if it has one of these types (None stands for itself); TypeError otherwise."""
    if not any(value is None if type_ is None else type(value) is type_ for type_ in types):
        raise TypeError(f"a value of type {type(value).__name__} is not expected here")
    return value


class Entry(StrEnum):
    """A load changed the table's rows; a fence only makes sure that older, unfinished loads can no longer commit."""

    LOAD = "load"
    FENCE = "fence"


@dataclass(frozen=True, slots=True)
class InputMark:
    """What a table's progress keeps of an input that it read: the last version that changed its rows, and the columns read.

    The time distinguishes the table from one that was dropped and created again with the same version.
    """

    version: int
    at: int
    columns: str = ""


class NewerPayloadError(ValueError):
    """A payload says something that this version does not know: a newer one wrote it."""


class Codec(Protocol[P]):
    """How a kind writes and reads its payload of a progress manifest, and adds up a chain of them."""

    kind: str

    def encode(self, payload: P) -> dict[str, Any]: ...
    def decode(self, value: Mapping[str, Any]) -> P:
        """NewerPayloadError for what cannot be left out without changing what the rest means."""

    def fold(self, older: P, newer: P) -> P:
        """What both stand for together, where `newer` states only what it adds."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A progress manifest: the description of one load, written before the table's commit and never changed after.

    The payload states what this load adds, or everything the table holds when `complete` is set.
    """

    dataset: str
    number: int
    parent: int | None
    kind: str = ""
    entry: Entry = Entry.LOAD
    complete: bool = True
    schema: Schema | None = None
    """The table's columns, where the load states them."""
    hidden: tuple[str, ...] = ()
    """Columns of the table that its readers do not see."""
    build_request_id: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    data_version: int | None = None
    """For a commit that changes nothing: the newest version that changed rows, whose commit may no longer be in the log."""
    data_at: int | None = None
    hides: str | None = None
    """For a commit that removes all rows of some keys, and nothing else: the request whose tombstones have these keys."""
    as_of: int | None = None
    """For a commit that may run beside others of the table: the newest version that the payload knows of, -1 for none.

    What was committed between it and the commit of this manifest is added to the payload by whoever reads it.
    """
    is_step: bool = False
    """For a commit that only prepares a load, or that is one of several: what was planned is not done with it."""


@dataclass(frozen=True, slots=True)
class Progress(Generic[P]):
    """What the table's committed rows stand for: the sum of the committed progress manifests."""

    number: int
    chain: tuple[int, ...]
    payload: P
    schema: Schema | None = None
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Damage:
    """Why a table's progress cannot be used; the plan turns it into a rebuild with this reason, where that can help."""

    code: str
    text: str
    is_fixed_by_rebuild: bool = True
    """False when even a new table could not be written there."""


@dataclass(frozen=True, slots=True)
class TableState(Generic[P]):
    """A table on storage as it is now, read without a JVM.

    `number` is the last committed load number; `pending` says that loads with higher numbers exist
    that did not commit (failed, or still running somewhere): an append must fence them off first.
    """

    version: int | None = None
    number: int | None = None
    progress: Progress[P] | None = None
    damage: Damage | None = None
    pending: bool = False
    last_known: P | None = None
    """With damage: what the newest readable manifest stands for, so that a rebuild loses nothing unnoticed."""
    data_version: int | None = None
    """The newest version that changed rows; others only changed properties, names or the layout of files."""
    data_at: int | None = None
    """When that was, in milliseconds."""

    @property
    def exists(self) -> bool:
        return self.version is not None

    @property
    def payload(self) -> P | None:
        return self.progress.payload if self.progress else None

    @property
    def schema(self) -> Schema | None:
        return self.progress.schema if self.progress else None
