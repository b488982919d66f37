"""The pages of a Parquet file: where each begins and ends, which are dictionaries, and what lies between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.maintenance.thrift import ThriftError, read_struct, to_plain

Struct: TypeAlias = dict[int, Any]

_DATA, _INDEX, _DICTIONARY, _DATA_V2 = 0, 1, 2, 3
_PLAIN = 0
_BY_DICTIONARY = {2, 8}
"""Encodings of data pages that hold numbers of dictionary entries instead of values."""
_HEADER = 4096
"""Bytes that are read for a header first; one with long statistics needs more."""
_CODECS = {
    "SNAPPY": "snappy",
    "GZIP": "gzip",
    "BROTLI": "brotli",
    "ZSTD": "zstd",
    "LZ4": "lz4_raw",
    "LZ4_RAW": "lz4_raw",
}


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a column chunk."""

    header: range
    body: range
    fields: Struct
    """The header, by field number."""

    @property
    def kind(self) -> int:
        return int(self.fields[1])

    @property
    def values(self) -> int:
        return int(self._details.get(1, 0)) if self.kind in {_DATA, _DATA_V2} else 0

    @property
    def is_dictionary(self) -> bool:
        return self.kind == _DICTIONARY

    @property
    def is_by_dictionary(self) -> bool:
        """Whether it holds numbers of dictionary entries."""
        return self._encoding in _BY_DICTIONARY and not self.is_dictionary

    @property
    def is_plain(self) -> bool:
        """Whether every value is in one piece in its content."""
        return self.is_dictionary or self._encoding == _PLAIN

    @property
    def uncompressed(self) -> int:
        """Bytes at the beginning that are never compressed: the levels of a data page of version 2."""
        return int(self._details.get(5, 0)) + int(self._details.get(6, 0)) if self.kind == _DATA_V2 else 0

    @property
    def is_compressed(self) -> bool:
        return bool(self._details.get(7, True)) or self.kind != _DATA_V2

    @property
    def _encoding(self) -> object:
        return self._details.get(4 if self.kind == _DATA_V2 else 2)

    @property
    def _details(self) -> Struct:
        details: Struct = self.fields.get({_DATA: 5, _INDEX: 6, _DICTIONARY: 7, _DATA_V2: 8}.get(self.kind, 0), {})
        return details


@dataclass(frozen=True, slots=True)
class Chunk:
    """The pages of one column in one row group."""

    row_group: int
    column: int
    pages: tuple[Page, ...]


def walk_chunk(file: pa.NativeFile, row_group: int, column: int, metadata: Any) -> Chunk:
    """Read the headers of all pages of a column chunk; raises `ThriftError` unless they add up to what the footer says."""
    starts = (metadata.dictionary_page_offset, metadata.data_page_offset)
    place = min(start for start in starts if start is not None and start > 0)
    end = place + metadata.total_compressed_size
    pages: list[Page] = []
    while place < end:
        page = _read_page(file, place, end)
        pages.append(page)
        place = page.body.stop
    if place != end or sum(page.values for page in pages) != metadata.num_values:
        raise ThriftError
    return Chunk(row_group, column, tuple(pages))


def _read_page(file: pa.NativeFile, place: int, end: int) -> Page:
    for size in (_HEADER, end - place):
        try:
            header, length = read_struct(file.read_at(min(size, end - place), place))
        except ThriftError:
            if size < end - place:
                continue
            raise
        fields, body = to_plain(header), place + length
        if 1 not in fields or fields.get(3, -1) < 0 or body + fields[3] > end:
            raise ThriftError
        return Page(range(place, body), range(body, body + fields[3]), fields)
    raise ThriftError


def read_page(file: pa.NativeFile, page: Page, compression: str) -> bytes:
    """The content of a page, decompressed."""
    content: bytes = file.read_at(len(page.body), page.body.start)
    if compression == "UNCOMPRESSED" or not page.is_compressed:
        return content
    if compression not in _CODECS:
        raise ThriftError
    levels, packed = content[: page.uncompressed], content[page.uncompressed :]
    size = page.fields[2] - len(levels)
    if size == 0:
        return levels
    return levels + bytes(pa.decompress(packed, decompressed_size=size, codec=_CODECS[compression], asbytes=True))


def split_values(dictionary: bytes, width: int | None) -> Iterator[bytes]:
    """The values of a dictionary page: each with its length before it, or all of the same width."""
    place = 0
    while place < len(dictionary):
        size = width
        if size is None:
            size = int.from_bytes(dictionary[place : place + 4], "little")
            place += 4
        yield dictionary[place : place + size]
        place += size
