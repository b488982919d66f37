"""Reading a user's file as one unchanging content, and writing the new one aside. The hashes tell them apart later."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, cast

from penstock.errors import ConcurrentRunError
from penstock.faults import fault_point
from penstock.maintenance.files.values import Content, Where
from penstock.storage.files import Files
from penstock.storage.hashing import hash_stream
from penstock.storage.local import LocalFiles

_STEP = 1 << 20
_MOST_NAME = 200
"""Most file systems take names of 255 bytes."""


@dataclass(frozen=True, slots=True)
class Source:
    """The old content: a seekable stream that is not the network's, with what it was when it was opened."""

    files: Files
    path: str
    stream: BinaryIO
    content: Content
    """Without the number of rows, which the reader of the format knows."""
    stamp: str

    @property
    def where(self) -> Where:
        return Where.of(self.files, self.path)

    def check_unchanged(self) -> None:
        """Raise when somebody wrote the file meanwhile: what was decided about its records may be wrong."""
        if self.files.stamp(self.path) != self.stamp:
            raise _changed(self.where)


def describe(stream: BinaryIO, rows: int = 0) -> Content:
    """Size and hashes of a content, from its start to its end."""
    digest = hashlib.sha256()
    stream.seek(0)
    content_hash = hash_stream(stream, digest.update)
    return Content(stream.tell(), digest.hexdigest(), content_hash, rows)


@contextmanager
def open_source(files: Files, path: str) -> Iterator[Source]:
    """Open the file for several passes; an object is first copied to a local file without a name."""
    where = Where.of(files, path)
    stamp = files.stamp(path)
    if stamp is None:
        raise where.refuse("there is no such file")
    if isinstance(files, LocalFiles):
        _check_links(files, path, where)
    with _open_local(files, path) as stream:
        source = Source(files, path, stream, describe(stream), stamp)
        source.check_unchanged()
        stream.seek(0)
        yield source


@contextmanager
def _open_local(files: Files, path: str) -> Iterator[BinaryIO]:
    with files.open(path) as content:
        if isinstance(files, LocalFiles):
            yield content
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(content, copy, _STEP)
            yield cast("BinaryIO", copy)


def _check_links(files: LocalFiles, path: str, where: Where) -> None:
    """Under its other name the old content would stay, or another table's file would change unnoticed."""
    file = files.root / path
    if file.is_symlink():
        raise where.refuse("it is a symbolic link", hint="put the file itself in its place, then run again")
    if file.stat().st_nlink > 1:
        raise where.refuse(
            "it has another name (a hard link), which would keep the old content",
            hint="remove the other name or copy the file, then run again",
        )


def aside_path(path: str) -> str:
    """Where the new content lies until it replaces the file: beside it, under a name that every reader ignores."""
    file = PurePosixPath(path)
    is_long = len(file.name.encode()) > _MOST_NAME
    name = hashlib.sha256(file.name.encode()).hexdigest() if is_long else file.name
    return str(file.with_name(f".{name}.rewritten"))


def write_aside(source: Source, write: Callable[[BinaryIO], int], verify: Callable[[BinaryIO], None]) -> Content:
    """Write the new content aside, check it there, and check what the store has of it; on an error nothing is left.

    `write` returns the number of rows; `verify` raises when something was lost.
    """
    files, aside = source.files, aside_path(source.path)
    with files.open_new(aside, source.path) as target:
        rows = write(target)
        fault_point("rewrite.during_aside")
        target.flush()
        new = describe(target, rows)
        target.seek(0)
        verify(target)
        source.check_unchanged()
    with files.open(aside) as stored:
        if describe(stored, rows) != new:
            files.remove(aside)
            raise source.where.refuse("the new content could not be read back as it was written", hint="run again")
    fault_point("rewrite.after_aside")
    return new


def _changed(where: Where) -> ConcurrentRunError:
    return ConcurrentRunError(f"{where.address} was changed while it was being rewritten", hint="run again")
