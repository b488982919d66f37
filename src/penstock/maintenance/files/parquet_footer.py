"""The footer of a Parquet file as it is written: every field, by its number in the format's Thrift definition.

pyarrow shows only a part of a footer and cannot write one, so it is read and written here. What is not understood is refused
before anything is written: it might point to a place in the file that moves.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

from penstock.maintenance.files.values import Where
from penstock.maintenance.thrift import Fields, read_struct, write_struct

MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"


class File:
    """Fields of FileMetaData."""

    VERSION, SCHEMA, ROWS, GROUPS, KEY_VALUES, CREATED_BY, ORDERS, ENCRYPTION, SIGNING_KEY = range(1, 10)


class Element:
    """Fields of SchemaElement."""

    TYPE, LENGTH, REPETITION, NAME, CHILDREN, CONVERTED, SCALE, PRECISION, FIELD_ID, LOGICAL = range(1, 11)


class Group:
    """Fields of RowGroup."""

    CHUNKS, BYTES, ROWS, SORTING, OFFSET, COMPRESSED, ORDINAL = range(1, 8)


class Chunk:
    """Fields of ColumnChunk."""

    FILE, OFFSET, META, OFFSETS, OFFSETS_SIZE, INDEX, INDEX_SIZE, CRYPTO, ENCRYPTED = range(1, 10)


class Meta:
    """Fields of ColumnMetaData."""

    TYPE, ENCODINGS, PATH, CODEC, VALUES, UNCOMPRESSED, COMPRESSED, KEY_VALUES, DATA = range(1, 10)
    INDEX_PAGE, DICTIONARY, STATISTICS, ENCODING_STATS, BLOOM, BLOOM_SIZE, SIZES, GEOSPATIAL = range(10, 18)


class Physical:
    """Physical types."""

    BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)


_KNOWN = {"the file": File, "a row group": Group, "a column": Chunk, "a column's data": Meta}
_REPEATED = 2
_DAMAGES = (ValueError, TypeError, AttributeError, IndexError, RecursionError)
"""What reading a footer raises in which fields are missing, or are something else."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of values: the end of a path through the schema."""

    place: int
    """Among the leaves of the file."""
    path: tuple[str, ...]
    element: Fields
    top: int
    """The place of its top-level column."""
    levels: tuple[int, int]
    """The greatest definition and repetition level."""

    @property
    def name(self) -> str:
        """For messages."""
        return ".".join(self.path)


def read_footer(stream: BinaryIO, where: Where) -> Fields:
    """The footer; RewriteError when the file is not Parquet, is encrypted, or is not understood completely."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 8))
    tail = stream.read(8)
    if tail[4:] == _ENCRYPTED_MAGIC:
        raise _encrypted(where)
    length = struct.unpack("<I", tail[:4])[0] if len(tail) == 8 else 0
    if tail[4:] != MAGIC or length > size - 12:
        raise where.refuse("it is not a Parquet file, or cut off", hint="restore the file or remove it")
    stream.seek(size - 8 - length)
    try:
        footer, _ = read_struct(stream.read(length))
        _check_footer(footer, where)
    except _DAMAGES:
        raise where.refuse("its footer is damaged", hint="restore the file or remove it") from None
    return footer


def write_footer(footer: Fields) -> bytes:
    """The end of a file: footer, its length, and the format's mark."""
    content = write_struct(footer)
    return content + struct.pack("<I", len(content)) + MAGIC


def groups_of(footer: Fields) -> list[Fields]:
    """The row groups."""
    found: list[Fields] = footer.get(File.GROUPS).values
    return found


def chunks_of(group: Fields) -> list[Fields]:
    """The column chunks of a row group: one for each leaf."""
    found: list[Fields] = group.get(Group.CHUNKS).values
    return found


def start_of(meta: Fields) -> int:
    """Where the pages of a column chunk begin: at the dictionary, if it has one. Some writers state 0 for none."""
    data, dictionary = meta.get(Meta.DATA), meta.get(Meta.DICTIONARY, 0)
    return int(dictionary if 0 < dictionary < data else data)


def top_elements(footer: Fields) -> list[int]:
    """The places of the top-level columns among the elements of the schema."""
    elements = footer.get(File.SCHEMA).values
    found, place = [], 1
    for _ in range(elements[0].get(Element.CHILDREN, 0)):
        found.append(place)
        waiting = 1
        while waiting:
            waiting += elements[place].get(Element.CHILDREN, 0) - 1
            place += 1
    return found


def leaves_of(footer: Fields) -> list[Leaf]:
    """The leaves, in the order of the file's column chunks."""
    elements = footer.get(File.SCHEMA).values
    found: list[Leaf] = []
    place = 1

    def descend(path: tuple[str, ...], top: int, levels: tuple[int, int]) -> None:
        nonlocal place
        element = elements[place]
        place += 1
        path = (*path, element.get(Element.NAME).decode("utf-8", "replace"))
        repetition = element.get(Element.REPETITION, 0)
        levels = (levels[0] + (repetition > 0), levels[1] + (repetition == _REPEATED))
        children = element.get(Element.CHILDREN, 0)
        if element.has(Element.TYPE):
            found.append(Leaf(len(found), path, element, top, levels))
        for _ in range(children):
            descend(path, top, levels)

    for top in range(elements[0].get(Element.CHILDREN, 0)):
        descend((), top, (0, 0))
    return found


def _check_footer(footer: Fields, where: Where) -> None:
    if footer.has(File.ENCRYPTION) or footer.has(File.SIGNING_KEY):
        raise _encrypted(where)
    _check_known(footer, "the file", where)
    leaves = leaves_of(footer)
    for group in groups_of(footer):
        _check_known(group, "a row group", where)
        if len(chunks_of(group)) != len(leaves):
            raise where.refuse("a row group does not have every column", hint="restore the file or remove it")
        for leaf, chunk in zip(leaves, chunks_of(group), strict=True):
            _check_chunk(leaf, chunk, where)


def _check_chunk(leaf: Leaf, chunk: Fields, where: Where) -> None:
    _check_known(chunk, "a column", where)
    if chunk.has(Chunk.CRYPTO) or chunk.has(Chunk.ENCRYPTED) or not chunk.has(Chunk.META):
        raise where.refuse(f"the column {leaf.name!r} is encrypted", hint="decrypt the file, or remove it")
    if chunk.get(Chunk.FILE):
        raise where.refuse(f"the column {leaf.name!r} is in another file", hint="write the rows into one file")
    _check_known(chunk.get(Chunk.META), "a column's data", where)


def _check_known(found: Fields, what: str, where: Where) -> None:
    known = {number for name, number in vars(_KNOWN[what]).items() if name.isupper()}
    if unknown := set(found.items) - known:
        raise where.refuse(
            f"its footer says something about {what} that this version does not know (field {min(unknown)})",
            hint="update Penstock, or write the file with another tool",
        )


def _encrypted(where: Where) -> Exception:
    return where.refuse("it is encrypted", hint="decrypt the file, or remove it")
