"""Where the bytes of a file come from: a local folder, an object store, memory, or the inside of a compressed file."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from penstock.errors import StorageError
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles

BLOCK = 4 << 20
"""Bytes that are read and searched at a time."""
IN_MEMORY = 64 << 20
"""Bytes up to which a file of an object store, or inside a compressed file, is held in memory."""


class UnreadableError(Exception):
    """The bytes of a file cannot be read; the message has no path and no value in it."""


@dataclass(frozen=True)
class Source:
    """A file whose bytes can be read again from the start."""

    name: str
    """Its name, which is a hint at its format."""
    size: int
    """-1 when it is not known."""
    open: Callable[[], BinaryIO]
    local: Path | None = None
    """The file itself, where it is on this machine."""

    def head(self, count: int = 4096) -> bytes:
        """The first bytes."""
        with self.open() as stream:
            return read_exactly(stream, count)

    def read(self, most: int = IN_MEMORY) -> bytes | None:
        """The whole content, or None if it is larger than `most`."""
        with self.open() as stream:
            content = read_exactly(stream, most + 1)
        return content if len(content) <= most else None


def stored_file(files: Files, path: str, size: int) -> Source:
    """A file of a folder or of an object store."""
    name = path.rsplit("/", 1)[-1]
    if isinstance(files, LocalFiles):
        return Source(name, size, lambda: _open(files, path), files.root / path)
    if size <= IN_MEMORY:
        content: list[bytes] = []  # one request, however often the file is read

        def open_once() -> BinaryIO:
            if not content:
                content.append(_read(files, path))
            return io.BytesIO(content[0])

        return Source(name, size, open_once)
    return Source(name, size, lambda: _open(files, path))


def blocks(stream: BinaryIO, overlap: int) -> Iterator[tuple[int, bytes, bool]]:
    """The content in blocks that overlap: the offset of each, its bytes, and whether it is the last."""
    size = max(BLOCK, 4 * overlap)
    offset, kept = 0, b""
    following = read_exactly(stream, size)
    while True:
        block = kept + following
        following = read_exactly(stream, size)
        yield offset, block, not following
        if not following:
            return
        kept = block[-overlap:] if overlap else b""
        offset += len(block) - len(kept)


def read_exactly(stream: BinaryIO, count: int) -> bytes:
    """That many bytes, or all that are left."""
    parts, missing = [], count
    while missing > 0 and (part := stream.read(missing)):
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _open(files: Files, path: str) -> BinaryIO:
    with _problems_named():
        stream = files.open(path)
    return stream if isinstance(files, LocalFiles) else io.BufferedReader(_Checked(stream), buffer_size=1 << 20)


def _read(files: Files, path: str) -> bytes:
    with _problems_named():
        return files.read(path)


@contextmanager
def _problems_named() -> Iterator[None]:
    """Turn whatever a store raises into one error: its own message may name a path."""
    try:
        yield
    except (FileNotFoundError, UnreadableError):
        raise
    except Exception as error:  # noqa: BLE001 - obstore's errors have no common base with those of Python
        is_denied = isinstance(error, StorageError) and error.message.startswith("no permission")
        raise UnreadableError("no permission" if is_denied else f"cannot be read ({type(error).__name__})") from None


class _Checked(io.RawIOBase):
    """A reader whose failures are `UnreadableError`, so that they differ from a file that cannot be decoded."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _problems_named():
            content = self._stream.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _problems_named():
            return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()
