"""What a scan reports. Needles are numbers, and a file name that holds a value is masked: a result has no personal data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.errors import VerificationError


class Search(StrEnum):
    """How a needle was looked for."""

    BYTES = "bytes and columns"
    COLUMNS = "columns only"
    """Shorter than 8 bytes, a date or a boolean: only as a value of its declared columns."""
    SHARED = "not searched: a remaining row has the same value"
    NOTHING = "not searched: too short, and no declared column"


@dataclass(frozen=True, slots=True)
class Hit:
    """A needle that was found."""

    place: str
    file: str
    """Relative to the place; a part that holds a value is shown as `[needle N]`."""
    where: str
    """The position in the file, such as `row group 3, column email`, or `file name`."""
    needle: int
    """The number of the needle, counted from 0 in the order in which they were given."""
    form: str
    """How the value was written there, such as `text`, `base64` or `column value`."""


@dataclass(frozen=True, slots=True)
class Note:
    """A file, and what is to be said about it."""

    place: str
    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class MethodCount:
    """How much was searched in one way."""

    method: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PlaceCount:
    """How much was searched at one place."""

    place: str
    files: int
    bytes: int
    exists: bool
    """False when there is no such folder, file or database schema."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a scan is."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What was searched, how, and what was found."""

    hits: tuple[Hit, ...]
    inside: tuple[Hit, ...]
    """Needles inside a longer value or token: they do not count, because that value is another one."""
    unreadable: tuple[Note, ...]
    """Files and folders that could not be read: the scan proves nothing about them."""
    undecoded: tuple[Note, ...]
    """Files of which something could not be decoded; it was searched as bytes."""
    places: tuple[PlaceCount, ...]
    methods: tuple[MethodCount, ...]
    needles: tuple[Search, ...]
    """How each needle was looked for, in the order in which they were given."""
    names: int
    """How many names of files and folders were searched."""
    seconds: float

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found and everything could be read."""
        return not self.hits and not self.unreadable

    @property
    def files(self) -> int:
        return sum(place.files for place in self.places)

    @property
    def bytes(self) -> int:
        return sum(place.bytes for place in self.places)


_MOST_NAMED = 5


def check_no_residue(result: ScanResult) -> None:
    """Raise `VerificationError`, which names the files, unless the scan is clean."""
    if result.is_clean:
        return
    found = list(dict.fromkeys((hit.place, hit.file) for hit in result.hits))
    closed = [(note.place, note.file) for note in result.unreadable]
    parts = []
    if found:
        parts.append(f"erased values were found in {_named(found)}")
    if closed:
        parts.append(f"could not be read: {_named(closed)}")
    raise VerificationError("; ".join(parts), hint="remove what is left, make every file readable, and scan again")


def _named(files: list[tuple[str, str]]) -> str:
    shown = ", ".join(f"{place}: {file}" for place, file in files[:_MOST_NAMED])
    more = len(files) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
