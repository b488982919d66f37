"""Compressed files as the files inside them: gzip, zstd, bzip2, LZ4 and Snappy in the framings of Hadoop and Spark, zip."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa

from penstock.maintenance.scan.sources import Source, read_exactly

_STREAMS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4", b"BZh": "bz2"}
_LZ4_BLOCK = b"LZ4Block"
_SNAPPY_JAVA = b"\x82SNAPPY\x00"
_SNAPPY_FRAMES = b"\xff\x06\x00\x00sNaPpY"
_ENDINGS = {".gz", ".gzip", ".zst", ".zstd", ".lz4", ".snappy", ".sz", ".bz2"}
_MOST = 1 << 30
"""Bytes that one block may have after decompression; more is damage."""


Reader = Callable[[BinaryIO], Iterator[bytes]]


class DamagedError(ValueError):
    """A compressed file does not have the form that its beginning promises."""


def open_inside(source: Source, head: bytes) -> tuple[str, Source] | None:
    """How a file is compressed, and the file inside it; None when it is not compressed."""
    readers: list[tuple[bytes, str, Reader]] = [
        *((magic, codec, partial(_arrow_stream, codec=codec)) for magic, codec in _STREAMS.items()),
        (_LZ4_BLOCK, "lz4 (Spark)", _lz4_blocks),
        (_SNAPPY_JAVA, "snappy (Spark)", _snappy_java),
        (_SNAPPY_FRAMES, "snappy (frames)", _snappy_frames),
    ]
    for magic, name, reader in readers:
        if head.startswith(magic):
            return name, _inside(source, reader)
    lower = source.name.lower()
    if lower.endswith((".snappy", ".lz4")) and _is_hadoop(head):
        codec = "snappy" if lower.endswith(".snappy") else "lz4_raw"
        return f"{codec} (Hadoop)", _inside(source, partial(_hadoop_blocks, codec=codec))
    if lower.endswith(".snappy"):
        return "snappy", _inside(source, _raw_snappy)
    return None


def zip_members(source: Source) -> Iterator[Source]:
    """The files in a zip or jar file."""
    with source.open() as stream, zipfile.ZipFile(stream) as archive:
        names = [member for member in archive.infolist() if not member.is_dir()]
    for member in names:
        yield Source(member.filename, member.file_size, partial(_open_member, source, member.filename))


def _open_member(source: Source, name: str) -> BinaryIO:
    return _open_chunks(source.open(), partial(_member, name=name))


def gzip_names(head: bytes) -> bytes:
    """What the header of a gzip file says: the name of the original file and a comment."""
    flags, place = head[3], 10
    if flags & 4:
        place += 2 + int.from_bytes(head[10:12], "little")
    return b"\n".join(head[place:].split(b"\0", 2)[: (flags >> 3 & 1) + (flags >> 4 & 1)])


def _inside(source: Source, reader: Reader) -> Source:
    stem, _, ending = source.name.rpartition(".")
    name = stem if f".{ending.lower()}" in _ENDINGS else source.name
    return Source(name, -1, lambda: _open_chunks(source.open(), reader))


def _open_chunks(stream: BinaryIO, reader: Reader) -> BinaryIO:
    return io.BufferedReader(_Chunks(reader(stream), stream), buffer_size=1 << 16)


def _arrow_stream(stream: BinaryIO, codec: str) -> Iterator[bytes]:
    inner = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), codec)
    yield from iter(lambda: inner.read(1 << 20), b"")


def _member(stream: BinaryIO, name: str) -> Iterator[bytes]:
    with zipfile.ZipFile(stream) as archive, archive.open(name) as member:
        yield from iter(lambda: member.read(1 << 20), b"")


def _lz4_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """LZ4BlockOutputStream of lz4-java: blocks with a header of 21 bytes; streams may follow each other."""
    while header := read_exactly(stream, 21):
        if len(header) < 21 or not header.startswith(_LZ4_BLOCK):
            raise DamagedError
        method, packed, size = header[8] & 0xF0, *struct.unpack("<ii", header[9:17])
        content = read_exactly(stream, _checked(packed))
        if size:  # an empty block ends a stream
            yield content if method == 0x10 else _decompress(content, _checked(size), "lz4_raw")


def _snappy_java(stream: BinaryIO) -> Iterator[bytes]:
    """SnappyOutputStream of snappy-java: a header of 16 bytes, then blocks with their length; streams may follow each other."""
    while start := read_exactly(stream, 4):
        if _SNAPPY_JAVA.startswith(start):
            read_exactly(stream, 12)
            continue
        content = read_exactly(stream, _checked(int.from_bytes(start, "big")))
        yield _raw(content)


def _snappy_frames(stream: BinaryIO) -> Iterator[bytes]:
    """The framing format of Snappy: chunks with a type and a length."""
    while header := read_exactly(stream, 4):
        content = read_exactly(stream, int.from_bytes(header[1:], "little"))
        if header[0] == 0x00:
            yield _raw(content[4:])
        elif header[0] == 0x01:
            yield content[4:]
        elif header[0] < 0x80:
            raise DamagedError


def _is_hadoop(head: bytes) -> bool:
    """Whether a file begins with the lengths of a block: uncompressed, then compressed."""
    if len(head) < 8:
        return False
    size, packed = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:8], "big")
    return 0 < size < _MOST and 0 < packed <= size + size // 6 + 64


def _hadoop_blocks(stream: BinaryIO, codec: str) -> Iterator[bytes]:
    """BlockCompressorStream of Hadoop: each block has its uncompressed length, then parts with their compressed length."""
    while start := read_exactly(stream, 4):
        missing = _checked(int.from_bytes(start, "big"))
        while missing:
            content = read_exactly(stream, _checked(int.from_bytes(read_exactly(stream, 4), "big")))
            part = _raw(content) if codec == "snappy" else _decompress_up_to(content, missing)
            missing -= len(part)
            yield part


def _raw_snappy(stream: BinaryIO) -> Iterator[bytes]:
    yield _raw(stream.read())


def _raw(content: bytes) -> bytes:
    """One block of Snappy, which begins with its uncompressed length."""
    size = shift = 0
    for byte in content[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return _decompress(content, _checked(size), "snappy")
    raise DamagedError


def _decompress_up_to(content: bytes, most: int) -> bytes:
    # A part is the last of its block or has Hadoop's buffer size; LZ4 alone does not tell how long it becomes.
    return bytes(pa.Codec("lz4_raw").decompress(content, decompressed_size=most, asbytes=True))


def _decompress(content: bytes, size: int, codec: str) -> bytes:
    return bytes(pa.decompress(content, decompressed_size=size, codec=codec, asbytes=True)) if size else b""


def _checked(size: int) -> int:
    if not 0 <= size <= _MOST:
        raise DamagedError
    return size


class _Chunks(io.RawIOBase):
    """Chunks of bytes as a stream."""

    def __init__(self, chunks: Iterator[bytes], below: BinaryIO) -> None:
        self._chunks = chunks
        self._below = below
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        self._below.close()
        super().close()
