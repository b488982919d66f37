"""Compressed text files: known by their ending, as Spark's readers know them, and written again in the same form."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from penstock.maintenance.files.values import Where

_REFUSED = (".snappy", ".lz4", ".lzo", ".br", ".xz", ".zip")
DAMAGES = (EOFError, OSError, zlib.error)
"""What reading a damaged compressed file raises."""


def check_ending(path: str, where: Where) -> None:
    """Refuse a compression that cannot be written again here."""
    if ending := next((ending for ending in _REFUSED if path.endswith(ending)), None):
        raise where.refuse(
            f"files that end in {ending} are not supported", hint="compress the file as .gz, or not at all"
        )


@contextmanager
def open_plain(stream: BinaryIO, path: str) -> Iterator[Any]:
    """The content of the file from its start, decompressed; the stream itself stays open."""
    stream.seek(0)
    if path.endswith(".gz"):
        with gzip.GzipFile(fileobj=stream, mode="rb") as plain:
            yield plain
    elif path.endswith(".bz2"):
        with bz2.BZ2File(stream, "rb") as plain:
            yield plain
    elif whole := _find_whole(path):
        yield io.BytesIO(whole[0](stream.read()))
    else:
        yield stream


@contextmanager
def open_compressed(target: BinaryIO, path: str) -> Iterator[Any]:
    """A stream that compresses into the target as the file's ending says; complete when the block has ended."""
    if path.endswith(".gz"):  # without a name and a time: the same records always become the same file
        with gzip.GzipFile(filename="", fileobj=target, mode="wb", compresslevel=6, mtime=0) as writer:
            yield writer
    elif path.endswith(".bz2"):
        with bz2.BZ2File(target, "wb") as writer:
            yield writer
    elif whole := _find_whole(path):
        plain = io.BytesIO()
        yield plain
        target.write(whole[1](plain.getvalue()))
    else:
        yield target


def _find_whole(path: str) -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]] | None:
    """How to decompress and compress a whole content."""
    if path.endswith(".deflate"):
        return zlib.decompress, zlib.compress
    return (_read_zstd, _write_zstd) if path.endswith(".zst") else None


def _read_zstd(content: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        return bytes(stream.read())


def _write_zstd(content: bytes) -> bytes:
    import pyarrow as pa

    target = pa.BufferOutputStream()
    with pa.CompressedOutputStream(target, "zstd") as stream:
        stream.write(content)
    return bytes(target.getvalue())
