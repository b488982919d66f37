"""Dictionary pages that list values which no row has: there, a person could outlive their rows.

pyarrow writes the whole dictionary of a categorical column into every row group. A column chunk that is copied must not carry on
a value of a removed row, unless one of its own rows has it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.maintenance.files.parquet_encode import read_column
from penstock.maintenance.files.parquet_footer import (
    MAGIC,
    Chunk,
    Element,
    File,
    Group,
    Leaf,
    Meta,
    chunks_of,
    groups_of,
    start_of,
    write_footer,
)
from penstock.maintenance.files.parquet_pages import read_range
from penstock.maintenance.files.parquet_raw import strip_element
from penstock.maintenance.thrift import BINARY, I32, I64, LIST, STRUCT, Fields, Items, read_struct, write_struct

_DICTIONARY_PAGE, _DICTIONARY_HEADER, _DATA_HEADER = 2, 7, 5
_RLE = 3
_MOST_HEADER = 1 << 12


@dataclass(frozen=True)
class Dictionaries:
    """The dictionaries of one file, beside the rows that it loses."""

    footer: Fields
    leaves: Sequence[Leaf]
    raw: Any
    stream: BinaryIO
    keeps: Sequence[Any]
    """For each row group the rows to keep; None for all."""

    def find_stale(self) -> frozenset[tuple[int, int]]:
        """Row groups that lose no row, with each top-level column that must be written again because of its dictionary."""
        whole = [number for number, keep in enumerate(self.keeps) if keep is None]
        found = set()
        for top, field in enumerate(self.raw.schema_arrow):
            leaves = [leaf for leaf in self.leaves if leaf.top == top]
            gone = cache(lambda field=field: self._find_gone_values(field))
            found |= {(number, top) for number in whole if self._is_stale(number, leaves, field, gone)}
        return frozenset(found)

    def _is_stale(self, number: int, leaves: Sequence[Leaf], field: Any, gone: Any) -> bool:
        try:
            listed = [self._read(number, leaf) for leaf in leaves]
            if all(values is None for values in listed):
                return False
            doubtful = [
                None if values is None else values.filter(pc.is_in(values, lost))
                for values, lost in zip(listed, gone(), strict=True)
            ]
            if not any(values is not None and len(values) for values in doubtful):
                return False
            used = _leaf_values(read_column(self.raw, number, field).column(0))
            return any(
                values is not None and not pc.all(pc.is_in(values, own), min_count=0).as_py()
                for values, own in zip(doubtful, used, strict=True)
            )
        except (pa.ArrowNotImplementedError, AttributeError, TypeError):  # values that cannot be compared, an odd page
            return True

    def _find_gone_values(self, field: Any) -> list[Any]:
        """The values of the removed rows, for each leaf of a column."""
        lost = [
            read_column(self.raw, number, field, pc.invert(keep)).column(0)
            for number, keep in enumerate(self.keeps)
            if keep is not None
        ]
        return [pc.unique(values) for values in _leaf_values(pa.chunked_array(c for part in lost for c in part.chunks))]

    def _read(self, number: int, leaf: Leaf) -> Any:
        """The values of a chunk's dictionary page; None when it has none.

        Stored as a page of plain values is: so it becomes one, in a file of its own, which pyarrow reads.
        """
        meta = chunks_of(groups_of(self.footer)[number])[leaf.place].get(Chunk.META)
        if not meta.get(Meta.VALUES):
            return None
        self.stream.seek(start_of(meta))
        header, size = read_struct(self.stream.read(_MOST_HEADER))
        if header.get(1) != _DICTIONARY_PAGE:
            return None
        content = read_range(self.stream, start_of(meta) + size, header.get(3))
        file = io.BytesIO(_to_file(leaf, meta, header, content))
        return _comparable(pq.read_table(file).column(0).combine_chunks())


def _comparable(array: Any) -> Any:
    """Half floats as their bits: Arrow does not compare them."""
    return array.view(pa.uint16()) if pa.types.is_float16(array.type) else array


def _leaf_values(column: Any) -> list[Any]:
    """The values of each leaf below a column, in the order of the leaves, without what tells their places."""

    def descend(array: Any) -> Iterator[Any]:
        if pa.types.is_struct(array.type):
            for child in array.flatten():
                yield from descend(child)
        elif pa.types.is_nested(array.type):
            yield from descend(array.flatten())
        else:
            yield _comparable(array)

    by_leaf = list(zip(*(list(descend(chunk)) for chunk in column.chunks), strict=True))
    return [pa.chunked_array(parts) for parts in by_leaf]


def _to_file(leaf: Leaf, meta: Fields, header: Fields, content: bytes) -> bytes:
    """A Parquet file with one required column, whose only page has this content."""
    count = header.get(_DICTIONARY_HEADER).get(1)
    page, inner = header.copy(), Fields()
    page.drop(4, _DICTIONARY_HEADER)
    for field, value in ((1, count), (2, 0), (3, _RLE), (4, _RLE)):
        inner.set(field, I32, value)
    page.set(1, I32, 0)
    page.set(_DATA_HEADER, STRUCT, inner)
    pages = write_struct(page) + content
    element = strip_element(1, leaf.element)
    element.set(Element.REPETITION, I32, 0)
    return MAGIC + pages + write_footer(_to_footer(element, meta, count, len(pages)))


def _to_footer(element: Fields, old: Fields, count: int, size: int) -> Fields:
    root, meta, chunk, group, footer = Fields(), Fields(), Fields(), Fields(), Fields()
    root.set(Element.NAME, BINARY, b"root")
    root.set(Element.CHILDREN, I32, 1)
    meta.set(Meta.TYPE, I32, element.get(Element.TYPE))
    meta.set(Meta.ENCODINGS, LIST, Items(I32, [0]))
    meta.set(Meta.PATH, LIST, Items(BINARY, [element.get(Element.NAME)]))
    meta.set(Meta.CODEC, I32, old.get(Meta.CODEC))
    for field, value in ((Meta.VALUES, count), (Meta.UNCOMPRESSED, size), (Meta.COMPRESSED, size), (Meta.DATA, 4)):
        meta.set(field, I64, value)
    chunk.set(Chunk.OFFSET, I64, 0)
    chunk.set(Chunk.META, STRUCT, meta)
    group.set(Group.CHUNKS, LIST, Items(STRUCT, [chunk]))
    group.set(Group.BYTES, I64, size)
    group.set(Group.ROWS, I64, count)
    footer.set(File.VERSION, I32, 1)
    footer.set(File.SCHEMA, LIST, Items(STRUCT, [root, element]))
    footer.set(File.ROWS, I64, count)
    footer.set(File.GROUPS, LIST, Items(STRUCT, [group]))
    return footer
