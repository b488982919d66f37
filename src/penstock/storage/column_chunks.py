"""What a Parquet footer says about the chunks of its columns, read here: pyarrow ends the process where it is damaged.

Its C++ code checks a chunk when it is asked for, and throws an exception that its Python code does not expect. So a chunk is
shown to pyarrow only after it was found sound.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

from penstock.storage.thrift import ThriftError, read_plain

Chunk: TypeAlias = "dict[int, Any]"
"""A column chunk, by the numbers of its fields."""

_GROUPS, _CHUNKS, _META, _CRYPTO, _ENCRYPTED = 4, 1, 3, 8, 9
_TYPE, _ENCODINGS, _CODEC, _STATISTICS, _SIZES = 1, 2, 4, 12, 16
_BYTES, _REPETITIONS, _DEFINITIONS = 1, 2, 3
_ENDS = (1, 2, 5, 6)
"""The largest and the smallest value, in the old way and in the new one."""
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_BYTE_STREAM_SPLIT = 9
_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 0}


class EncryptedError(ValueError):
    """A column is encrypted; the text is its path."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """What the schema says about a column of values."""

    path: str
    type: int
    width: int
    """The bytes of a value; 0 where values have their own lengths."""
    definitions: int
    repetitions: int


def read_leaves(schema: Any) -> tuple[Leaf, ...]:
    """The leaves of pyarrow's Parquet schema."""
    found = []
    for place in range(len(schema)):
        leaf = schema.column(place)
        width = _WIDTHS.get(leaf.physical_type, leaf.length)
        levels = (leaf.max_definition_level, leaf.max_repetition_level)
        found.append(Leaf(leaf.path, _TYPES.index(leaf.physical_type), width, *levels))
    return tuple(found)


def read_chunks(stream: BinaryIO) -> list[list[Chunk]]:
    """The column chunks by row group, of a file whose footer is known to be one; ThriftError where they are none."""
    size = stream.seek(0, 2)
    stream.seek(size - 8)
    (length,) = struct.unpack("<I", stream.read(4))
    stream.seek(size - 8 - length)
    groups = read_plain(stream.read(length)).get(_GROUPS, [])
    if not _is_list_of_structs(groups) or not all(_is_list_of_structs(group.get(_CHUNKS)) for group in groups):
        raise ThriftError("a row group has no columns")
    return [group[_CHUNKS] for group in groups]


def _is_list_of_structs(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def check_chunks(groups: Sequence[Sequence[Chunk]], leaves: Sequence[Leaf]) -> None:
    """ThriftError for damage that would end the process; EncryptedError for a column that cannot be read without a key."""
    for chunks in groups:
        if len(chunks) != len(leaves):
            raise ThriftError(f"a row group has {len(chunks)} columns, the schema has {len(leaves)}")
        for chunk, leaf in zip(chunks, leaves, strict=True):
            if _CRYPTO in chunk or _ENCRYPTED in chunk:
                raise EncryptedError(leaf.path)
            try:
                is_sound = _is_sound(chunk[_META], leaf)
            except (TypeError, KeyError, AttributeError, IndexError):
                is_sound = False
            if not is_sound:
                raise ThriftError(f"what it says about the column {leaf.path!r} is damaged")


def _is_sound(meta: Chunk, leaf: Leaf) -> bool:
    if meta[_TYPE] != leaf.type or not 0 <= meta[_CODEC] < len(_CODECS):
        return False
    sizes, statistics = meta.get(_SIZES), meta.get(_STATISTICS, {})
    if not isinstance(meta[_ENCODINGS], list) or not isinstance(statistics, dict):
        return False
    if not all(isinstance(statistics.get(end, b""), bytes) for end in _ENDS):
        return False
    if sizes is None:
        return True
    levels = ((sizes.get(_REPETITIONS), leaf.repetitions), (sizes.get(_DEFINITIONS), leaf.definitions))
    is_counted = all(not counts or len(counts) == most + 1 for counts, most in levels)
    return is_counted and (_BYTES not in sizes or _TYPES[leaf.type] == "BYTE_ARRAY")


def has_whole_statistics(chunk: Chunk, leaf: Leaf) -> bool:
    """Whether the smallest and largest values are as long as a value: pyarrow cannot read others, which some writers cut."""
    statistics = chunk[_META].get(_STATISTICS, {})
    return all(len(statistics[end]) >= leaf.width for end in _ENDS if end in statistics)


def find_unread(chunk: Chunk) -> tuple[str, str] | None:
    """The compression or encoding of a chunk that Spark has no reader for, and which of the two it is."""
    codec = _CODECS[chunk[_META][_CODEC]]
    if codec in {"LZO", "BROTLI"}:
        return codec, "compression"
    return ("BYTE_STREAM_SPLIT", "encoding") if _BYTE_STREAM_SPLIT in chunk[_META][_ENCODINGS] else None
