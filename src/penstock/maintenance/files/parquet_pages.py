"""Column chunks as bytes: their pages, their indexes and bloom filters, and what must change when they move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from penstock.maintenance.files.parquet_footer import Chunk, Meta, start_of
from penstock.maintenance.thrift import I64, LIST, STRUCT, Fields, Items, read_struct

_DATA_PAGE, _DATA_PAGE_V2 = 0, 3
_PAGE_TYPE, _PAGE_SIZE, _PAGE_CRC, _PAGE_V1, _PAGE_V2 = 1, 3, 4, 5, 8
_PLAIN_DICTIONARY, _RLE_DICTIONARY = 2, 8


@dataclass(frozen=True, slots=True)
class Pages:
    """What the page headers of a column chunk say about how it was written."""

    encodings: frozenset[int] = frozenset()
    """Of the data pages."""
    is_version_2: bool = False
    has_checksums: bool = False

    @property
    def has_dictionary(self) -> bool:
        return bool(self.encodings & {_PLAIN_DICTIONARY, _RLE_DICTIONARY})

    @property
    def is_old_dictionary(self) -> bool:
        return _PLAIN_DICTIONARY in self.encodings


@dataclass(frozen=True, slots=True)
class Piece:
    """A column chunk outside of a file: its entry in the footer, its pages, and what lies apart from them."""

    chunk: Fields
    content: bytes
    column_index: bytes | None = None
    offset_index: Fields | None = None
    bloom_filter: bytes | None = None

    @property
    def meta(self) -> Fields:
        found: Fields = self.chunk.get(Chunk.META)
        return found


def read_piece(stream: BinaryIO, chunk: Fields) -> Piece:
    """A column chunk with everything that belongs to it; ValueError when the file does not have it where it says."""
    meta = chunk.get(Chunk.META)
    content = read_range(stream, start_of(meta), meta.get(Meta.COMPRESSED))
    index = offsets = None
    if chunk.get(Chunk.INDEX_SIZE):
        index = read_range(stream, chunk.get(Chunk.INDEX), chunk.get(Chunk.INDEX_SIZE))
    if chunk.get(Chunk.OFFSETS_SIZE):
        offsets, _ = read_struct(read_range(stream, chunk.get(Chunk.OFFSETS), chunk.get(Chunk.OFFSETS_SIZE)))
    return Piece(chunk, content, index, offsets, _read_bloom_filter(stream, meta))


def read_range(stream: BinaryIO, start: int, size: int) -> bytes:
    """Exactly these bytes; ValueError when the file has fewer."""
    stream.seek(start)
    content = stream.read(size)
    if len(content) != size:
        raise ValueError("the file is cut off")
    return content


def _read_bloom_filter(stream: BinaryIO, meta: Fields) -> bytes | None:
    start = meta.get(Meta.BLOOM)
    if not start:
        return None
    if meta.get(Meta.BLOOM_SIZE):
        return read_range(stream, start, meta.get(Meta.BLOOM_SIZE))
    stream.seek(start)
    header, size = read_struct(stream.read(256))
    return read_range(stream, start, size + header.get(1))


def read_pages(content: bytes) -> Pages:
    """Walk over the pages of a chunk; ValueError when they do not fill it exactly: then it cannot be moved as it is."""
    place, encodings = 0, set()
    is_version_2 = has_checksums = False
    while place < len(content):
        header, place = read_struct(content, place)
        place += header.get(_PAGE_SIZE, 0)
        has_checksums |= header.has(_PAGE_CRC)
        if header.get(_PAGE_TYPE) == _DATA_PAGE:
            encodings.add(header.get(_PAGE_V1).get(2))
        elif header.get(_PAGE_TYPE) == _DATA_PAGE_V2:
            is_version_2 = True
            encodings.add(header.get(_PAGE_V2).get(4))
    if place != len(content):
        raise ValueError("the pages do not fill the column chunk")
    return Pages(frozenset(encodings), is_version_2, has_checksums)


def move(piece: Piece, start: int) -> Piece:
    """The same chunk at another place of a file; its indexes and bloom filter get their places later."""
    chunk, meta = piece.chunk.copy(), piece.meta.copy()
    old = start_of(meta)
    for field in (Meta.DATA, Meta.INDEX_PAGE, Meta.DICTIONARY):
        if meta.get(field):
            meta.set(field, I64, meta.get(field) - old + start)
    meta.drop(Meta.BLOOM, Meta.BLOOM_SIZE)
    chunk.drop(Chunk.OFFSETS, Chunk.OFFSETS_SIZE, Chunk.INDEX, Chunk.INDEX_SIZE)
    # Once the place of a copy of the metadata, which is not copied; deprecated, and 0 by the format's own advice.
    is_pages = chunk.get(Chunk.OFFSET) in {old, piece.meta.get(Meta.DATA)}
    chunk.set(Chunk.OFFSET, I64, chunk.get(Chunk.OFFSET) - old + start if is_pages and old else 0)
    chunk.set(Chunk.META, STRUCT, meta)
    return Piece(chunk, piece.content, piece.column_index, _move_offsets(piece, start - old), piece.bloom_filter)


def _move_offsets(piece: Piece, distance: int) -> Fields | None:
    if piece.offset_index is None:
        return None
    moved, pages = piece.offset_index.copy(), []
    for page in piece.offset_index.get(1).values:
        shifted = page.copy()
        shifted.set(1, I64, page.get(1) + distance)
        pages.append(shifted)
    moved.set(1, LIST, Items(STRUCT, pages))
    return moved
