"""Reading a Parquet file without the meaning of its types: the bits as they are stored, by pyarrow's own decoders.

pyarrow is given the file with another footer, in which every type is only physical: a decimal is bytes, a timestamp a number, an
INT96 12 bytes, a list a repeated group. What it reads so it writes so, with the same levels; the footer of the new file then says
again what the old one said. A few meanings stay, because they decide the order of values, and so the statistics.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, BinaryIO

import pyarrow.parquet as pq

from penstock.maintenance.files.parquet_footer import (
    MAGIC,
    Chunk,
    Element,
    File,
    Group,
    Leaf,
    Meta,
    Physical,
    chunks_of,
    groups_of,
    leaves_of,
    top_elements,
    write_footer,
)
from penstock.maintenance.thrift import BINARY, I32, LIST, STRUCT, Fields, Items

_INT96_SIZE = 12
_TYPE_ORDER = 1
_MOST_DIGITS = 76
"""Of a decimal in Arrow."""


class _Converted:
    """Converted types, the older way to say what a value means."""

    DECIMAL, UINT_32, UINT_64, INTERVAL = 5, 13, 14, 21


class _Logical:
    """Logical types: the field that is set in the union."""

    DECIMAL, INTEGER, FLOAT16 = 5, 10, 15
    ORDERED = frozenset({1, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15})


def to_raw_metadata(footer: Fields, meant: AbstractSet[int] = frozenset()) -> Any:
    """The file's metadata for pyarrow, with physical types only, except for the top-level columns `meant`.

    Every element is called `e` and its number, except below these.
    """
    raw = footer.copy()
    raw.drop(File.KEY_VALUES, File.ORDERS)
    elements = footer.get(File.SCHEMA).values
    tops = top_elements(footer)
    kept = {number for top in meant for number in range(tops[top], [*tops, len(elements)][top + 1])}
    stripped = [each if number in kept else strip_element(number, each) for number, each in enumerate(elements)]
    for top in meant:
        stripped[tops[top]] = _rename(tops[top], elements[tops[top]])
    raw.set(File.SCHEMA, LIST, Items(STRUCT, stripped))
    leaves = leaves_of(footer)
    groups = [_strip_group(group, leaves, meant) for group in groups_of(footer)]
    raw.set(File.GROUPS, LIST, Items(STRUCT, groups))
    return pq.read_metadata(io.BytesIO(MAGIC + write_footer(raw)))


def open_raw(stream: BinaryIO, metadata: Any) -> Any:
    """The file as pyarrow reads it with such metadata."""
    return pq.ParquetFile(stream, metadata=metadata, pre_buffer=False, coerce_int96_timestamp_unit="us")


def keeps_meaning(element: Fields) -> bool:
    """Whether the raw form of a column keeps its logical type: unsigned numbers, half floats, and most decimals in bytes.

    pyarrow stores these as they were, and only with their meaning it knows which value is the smallest.
    """
    if _is_unsigned(element) or _logical(element) == _Logical.FLOAT16:
        return True
    return _is_decimal(element) and element.get(Element.TYPE) == Physical.FIXED and _has_natural_length(element)


def has_order(leaf: Leaf, footer: Fields) -> bool:
    """Whether pyarrow, reading raw, orders the column's values as the format does: else it states no smallest and greatest."""
    element = leaf.element
    orders = footer.get(File.ORDERS)
    if orders is not None and _TYPE_ORDER not in orders.values[leaf.place].items:
        return False
    if element.get(Element.TYPE) == Physical.INT96 or element.get(Element.CONVERTED) == _Converted.INTERVAL:
        return False
    if _logical(element) is not None and _logical(element) not in _Logical.ORDERED:
        return False
    is_bytes = element.get(Element.TYPE) in {Physical.FIXED, Physical.BYTE_ARRAY}
    return keeps_meaning(element) or not (is_bytes and _is_decimal(element))


def strip_element(number: int, element: Fields) -> Fields:
    """An element of the schema with its physical type only."""
    stripped = _rename(number, element)
    stripped.drop(Element.FIELD_ID)
    if not keeps_meaning(element):
        stripped.drop(Element.CONVERTED, Element.SCALE, Element.PRECISION, Element.LOGICAL)
    if element.get(Element.TYPE) == Physical.INT96:
        stripped.set(Element.TYPE, I32, Physical.FIXED)
        stripped.set(Element.LENGTH, I32, _INT96_SIZE)
    return stripped


def _rename(number: int, element: Fields) -> Fields:
    renamed = element.copy()
    renamed.set(Element.NAME, BINARY, f"e{number}".encode())
    return renamed


def _strip_group(group: Fields, leaves: Sequence[Leaf], meant: AbstractSet[int]) -> Fields:
    stripped = group.copy()
    stripped.drop(Group.SORTING)
    chunks = [_strip_chunk(chunk, leaf.top in meant) for leaf, chunk in zip(leaves, chunks_of(group), strict=True)]
    stripped.set(Group.CHUNKS, LIST, Items(STRUCT, chunks))
    return stripped


def _strip_chunk(chunk: Fields, is_meant: bool) -> Fields:
    stripped, meta = chunk.copy(), chunk.get(Chunk.META).copy()
    meta.drop(Meta.STATISTICS, Meta.SIZES, Meta.GEOSPATIAL)
    if meta.get(Meta.TYPE) == Physical.INT96 and not is_meant:
        meta.set(Meta.TYPE, I32, Physical.FIXED)
    stripped.set(Chunk.META, STRUCT, meta)
    return stripped


def _logical(element: Fields) -> int | None:
    logical = element.get(Element.LOGICAL)
    return next(iter(logical.items), 0) if logical is not None else None


def _is_decimal(element: Fields) -> bool:
    return _logical(element) == _Logical.DECIMAL or element.get(Element.CONVERTED) == _Converted.DECIMAL


def _is_unsigned(element: Fields) -> bool:
    """Of 32 or 64 bits: shorter ones are stored in 32 bits, where their order is that of signed numbers."""
    if element.get(Element.CONVERTED) in {_Converted.UINT_32, _Converted.UINT_64}:
        return True
    if _logical(element) != _Logical.INTEGER:
        return False
    integer = element.get(Element.LOGICAL).get(_Logical.INTEGER)
    bits = {Physical.INT32: 32, Physical.INT64: 64}.get(element.get(Element.TYPE))
    return not integer.get(2) and integer.get(1) == bytes([bits or 0])


def _has_natural_length(element: Fields) -> bool:
    precision = element.get(Element.PRECISION, 0)
    natural = ((10**precision - 1).bit_length() + 8) // 8
    return 0 < precision <= _MOST_DIGITS and bool(element.get(Element.LENGTH) == natural)
