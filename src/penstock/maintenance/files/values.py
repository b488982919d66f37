"""What rewriting a file gives: the old and the new content as values, for a progress manifest and a journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from penstock.errors import Location, RewriteError
from penstock.model.schema import Footer
from penstock.storage.files import Files


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file, as far as it must be recognized later."""

    size: int
    sha256: str
    content_hash: str
    """The hash that progress manifests keep (`ConsumedFile.content_hash`)."""
    rows: int
    """Rows of a Parquet file, records of a text file without its header."""


class FileState(StrEnum):
    """Which content a file has now."""

    OLD = "old"
    NEW = "new"
    OTHER = "other"
    """Somebody else changed it."""
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A file that was written again, aside: the old one is still in its place until `replacing.replace` is called."""

    path: str
    old: Content
    new: Content
    aside: str | None = None
    """Where the new content lies; None when no record is gone, and old and new are the same."""
    survivors: str = ""
    """A checksum of the records that stay, in their order: equal before and after, or this value would not exist."""
    notes: tuple[str, ...] = ()
    """What could not be kept and does not matter to any reader's rows, such as a bloom filter."""
    footer: Footer | None = None
    """What the caller keeps of the new footer; not part of the journal, because the new file has it."""

    @property
    def removed(self) -> int:
        """How many records are gone."""
        return self.old.rows - self.new.rows

    def to_json(self) -> dict[str, Any]:
        """What a journal keeps."""
        return {
            "path": self.path,
            "old": asdict(self.old),
            "new": asdict(self.new),
            "aside": self.aside,
            "survivors": self.survivors,
            "notes": list(self.notes),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Rewritten:
        """Read what `to_json` wrote."""
        old, new = Content(**value["old"]), Content(**value["new"])
        return Rewritten(value["path"], old, new, value["aside"], value["survivors"], tuple(value["notes"]))


class RecordError(ValueError):
    """A record that cannot be searched. It says why and where it starts, and has nothing of its text."""

    def __init__(self, problem: str, place: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = place


@dataclass(frozen=True, slots=True)
class Where:
    """The file that is being rewritten, for errors: they name the file, the line and the column, and never a value."""

    address: str

    @staticmethod
    def of(files: Files, path: str) -> Where:
        return Where(f"{files.uri.rstrip('/')}/{path}")

    def refuse(self, problem: str, *, hint: str | None = None, line: int | None = None) -> RewriteError:
        """The error that says why this file cannot be rewritten."""
        return RewriteError(
            f"the file cannot be rewritten: {problem}; it was left as it is",
            hint=hint,
            location=Location(self.address, line),
        )
