"""What erasing keys from files did, as values for results and receipts; no value of a row is in them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.progress import RawFile


@dataclass(frozen=True, slots=True)
class FileErased:
    """What was done, or is to do, with the files of one place."""

    place: str
    """Its address."""
    searched: int
    """Files that were searched."""
    rewritten: int
    """Files with records of the keys: they are written again, or removed if no progress lists them."""
    removed: int
    """Records of the keys."""
    bytes_before: int
    """Of the files that are rewritten."""
    bytes_after: int | None = None
    """None when it was only counted."""
    notes: tuple[str, ...] = ()
    """What could not be kept and does not matter to any reader's rows, such as a bloom filter."""
    files: tuple[RawFile, ...] = ()
    """The files as they are now, as far as they were searched: none of them has a record of the keys."""
