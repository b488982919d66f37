"""Parquet files: pages and dictionaries are decoded by pyarrow; headers, indexes and the footer are searched as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.maintenance.scan.arrow_columns import ArrowScan
from penstock.maintenance.scan.findings import Findings
from penstock.maintenance.scan.json_text import may_hold
from penstock.maintenance.scan.parquet_pages import Chunk, read_page, split_values, walk_chunk
from penstock.maintenance.scan.parquet_structure import read_extents, scan_gaps
from penstock.maintenance.scan.sources import IN_MEMORY, Source

_TEXTS = {"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"}
_NUMBERS = {"DECIMAL", "FLOAT16", "INTERVAL"}
_BATCH_BYTES = 16 << 20
_MOST_INSIDE = 256 << 20
"""Bytes up to which a file inside a compressed file is decoded: it must fit into memory."""
_MAPS = {"key_value", "map", "entries"}
_WRAPPERS = _MAPS | {"list", "element", "item", "array", "bag", "array_element"}
ERRORS = (pa.ArrowException, ValueError, OSError, KeyError, IndexError, OverflowError)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of the file's schema that has to be looked at."""

    number: int
    path: str
    has_texts: bool
    is_compared: bool
    """Its values are compared with needles that a search of bytes does not find, so that its rows are decoded."""
    width: int | None

    @property
    def parts(self) -> tuple[str, ...]:
        """Its names, without those that Parquet puts between a list or map and its values."""
        first, *others = self.path.lower().split(".")
        return first, *(name for name in others if name not in _WRAPPERS)


def count_row_groups(source: Source) -> int:
    """How many parts of a file can be searched beside each other."""
    with _open(source) as (_, file):
        return int(file.num_row_groups)


def scan_parquet(source: Source, findings: Findings, row_groups: Sequence[int] | None = None) -> None:
    """Search a file: these row groups, or all of them and everything around them."""
    with _open(source) as (stream, file):
        scan = _ParquetScan(stream, file, findings)
        for row_group in range(file.num_row_groups) if row_groups is None else row_groups:
            scan.scan_row_group(row_group)
        if row_groups is None:
            scan.scan_structure()


def scan_structure(source: Source, findings: Findings) -> None:
    """Search what is around the pages of a file: headers, indexes, footer."""
    with _open(source) as (stream, file):
        _ParquetScan(stream, file, findings).scan_structure()


class _ParquetScan:
    def __init__(self, stream: pa.NativeFile, file: pq.ParquetFile, findings: Findings) -> None:
        self._stream, self._file, self._findings = stream, file, findings
        self._arrow = ArrowScan(findings)
        self._leaves = [leaf for leaf in self._find_leaves() if leaf.has_texts or leaf.is_compared]
        self._chunks: dict[tuple[int, int], Chunk | None] = {}

    def scan_row_group(self, row_group: int) -> None:
        """Search the pages of all columns; rows are decoded where pages hold something, or values must be compared."""
        wanted = [leaf for leaf in self._leaves if self._search_pages(row_group, leaf) or leaf.is_compared]
        if wanted:
            self._read(row_group, wanted)

    def scan_structure(self) -> None:
        """Search everything that is not the body of a page, in columns that can hold texts."""
        chunks, bodies = [], []
        by_number = {leaf.number: leaf for leaf in self._leaves if leaf.has_texts}
        for row_group in range(self._file.num_row_groups):
            group = self._file.metadata.row_group(row_group)
            for number in range(group.num_columns):
                chunk = self._walk(row_group, by_number[number]) if number in by_number else None
                if chunk is not None:
                    chunks.append(chunk)
                    bodies += [page.body for page in chunk.pages]
                else:  # numbers, or a column whose pages were searched as bytes
                    bodies.append(_extent(group.column(number)))
        scan_gaps(self._stream, bodies, chunks, self._findings)

    def _find_leaves(self) -> Iterator[_Leaf]:
        schema = self._file.schema
        for number in range(len(schema)):
            column = schema.column(number)
            is_number = column.logical_type.type in _NUMBERS or column.converted_type in _NUMBERS
            has_texts = column.physical_type in _TEXTS and not is_number
            width = column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else None
            yield _Leaf(number, column.path, has_texts, self._is_compared(column, has_texts=has_texts), width)

    def _is_compared(self, column: Any, *, has_texts: bool) -> bool:
        """Whether a column may be a declared one: lists and maps have names of their own on the way to it."""
        parts = {*column.path.lower().split("."), column.name.lower()}
        return any(
            parts & _MAPS or parts.intersection((*values.parts, ".".join(values.parts)))
            for values in self._findings.columns.declared
            if not has_texts or values.has_short_texts
        )

    def _walk(self, row_group: int, leaf: _Leaf) -> Chunk | None:
        key = row_group, leaf.number
        if key not in self._chunks:
            metadata = self._file.metadata.row_group(row_group).column(leaf.number)
            try:
                self._chunks[key] = walk_chunk(self._stream, row_group, leaf.number, metadata)
            except ERRORS:
                self._chunks[key] = None
        return self._chunks[key]

    def _search_pages(self, row_group: int, leaf: _Leaf) -> bool:
        """Search the pages of a column as they are decompressed; true when its rows have to be decoded to be sure.

        Dictionaries are searched whole: they can have entries that no row uses.
        """
        if not leaf.has_texts:
            return False
        findings, is_needed = self._findings, False
        chunk = self._walk(row_group, leaf)
        compression = self._file.metadata.row_group(row_group).column(leaf.number).compression
        try:
            for page in chunk.pages if chunk is not None else ():
                if page.is_by_dictionary or (is_needed and not page.is_dictionary):
                    continue
                content = read_page(self._stream, page, compression) if page.is_plain else b""
                is_suspect = not page.is_plain or bool(findings.searcher.search(content)) or may_hold(findings, content)
                if page.is_dictionary and (is_suspect or leaf.is_compared):
                    values = pa.array(list(split_values(content, leaf.width)), pa.binary())
                    self._arrow.scan(values, leaf.parts, f"row group {row_group}, dictionary")
                is_needed |= is_suspect and not page.is_dictionary
        except ERRORS:
            chunk = None
        if chunk is None:
            self._search_chunk(row_group, leaf, "its pages cannot be found or decompressed")
        return is_needed or chunk is None

    def _read(self, row_group: int, leaves: Sequence[_Leaf]) -> None:
        try:
            self._scan_batches(row_group, [leaf.path for leaf in leaves])
        except ERRORS:
            if len(leaves) > 1:
                for leaf in leaves:
                    self._read(row_group, [leaf])
            else:
                self._search_chunk(row_group, leaves[0], "pages cannot be decoded")

    def _scan_batches(self, row_group: int, paths: Iterable[str]) -> None:
        metadata = self._file.metadata.row_group(row_group)
        row = max(1, metadata.total_byte_size // max(1, metadata.num_rows))
        size = max(1024, min(1 << 17, _BATCH_BYTES // row))
        batches = self._file.iter_batches(size, row_groups=[row_group], columns=list(paths), use_threads=False)
        for batch in batches:
            for name, array in zip(batch.schema.names, batch.columns, strict=True):
                self._arrow.scan(array, (name.lower(),), f"row group {row_group}")

    def _search_chunk(self, row_group: int, leaf: _Leaf, problem: str) -> None:
        """Search the pages of a column as they are."""
        where = f"row group {row_group}, column {leaf.path}"
        self._findings.undecoded.append(f"{where}: {problem}; searched as bytes")
        extent = _extent(self._file.metadata.row_group(row_group).column(leaf.number))
        for block in read_extents(self._stream, [extent], self._findings.searcher.overlap):
            self._findings.add_from_bytes(self._findings.searcher.search(block), where)


def _extent(metadata: Any) -> range:
    starts = (metadata.dictionary_page_offset, metadata.data_page_offset)
    start = min(start for start in starts if start is not None and start > 0)
    return range(start, start + metadata.total_compressed_size)


@contextmanager
def _open(source: Source) -> Iterator[tuple[pa.NativeFile, pq.ParquetFile]]:
    if source.local is not None:
        stream = pa.OSFile(str(source.local))
    elif source.size > IN_MEMORY:
        stream = pa.PythonFile(source.open(), mode="r")
    else:
        content = source.read(_MOST_INSIDE)
        if content is None:
            raise ValueError("too large to be decoded inside a compressed file")
        stream = pa.BufferReader(content)
    with stream, pq.ParquetFile(stream) as file:
        yield stream, file
