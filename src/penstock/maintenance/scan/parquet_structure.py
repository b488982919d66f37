"""What is around the pages of a Parquet file: page headers, page indexes, statistics, key-value metadata, unused bytes.

All of it is searched as bytes first. Only when that finds something is it parsed, to tell whole values, truncated
statistics and parts of other values apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock.maintenance.scan.extents import between
from penstock.maintenance.scan.findings import Findings
from penstock.maintenance.scan.parquet_pages import Chunk, Struct
from penstock.maintenance.scan.sources import BLOCK
from penstock.maintenance.thrift import ThriftError, read_struct, to_plain

_MAGIC = 4
_END = 8
"""The length of the footer and the magic."""
_STATISTICS = {1: "max", 2: "min", 5: "max", 6: "min"}
_KEY_VALUES, _ROW_GROUPS, _SCHEMA = 5, 4, 2


def scan_gaps(stream: pa.NativeFile, bodies: Sequence[range], chunks: Sequence[Chunk], findings: Findings) -> None:
    """Search everything that is not in one of the bodies."""
    size, overlap = stream.size(), findings.searcher.overlap
    if not any(findings.searcher.search(block) for block in read_extents(stream, between(bodies, size), overlap)):
        return
    structure = _Structure(stream, findings)
    known = [*bodies, range(_MAGIC)]
    try:
        known += structure.scan_footer()
    except (ThriftError, pa.ArrowException, OSError, KeyError, TypeError, IndexError):
        findings.undecoded.append("footer: cannot be parsed; searched as bytes")
    for chunk in chunks:
        known += structure.scan_headers(chunk)
    for block in read_extents(stream, between(known, size), overlap):
        findings.add_from_bytes(findings.searcher.search(block), "unused bytes")


class _Structure:
    def __init__(self, stream: pa.NativeFile, findings: Findings) -> None:
        self._stream, self._findings = stream, findings

    def scan_footer(self) -> list[range]:
        """Search the values of the footer and of the indexes that it names; gives what was covered."""
        size = self._stream.size()
        length = int.from_bytes(self._stream.read_at(4, size - _END), "little")
        extent = range(size - _END - length, size - _END)
        footer = to_plain(read_struct(self._stream.read_at(length, extent.start))[0])
        covered = [extent, range(size - _END, size)]
        for number, group in enumerate(footer.get(_ROW_GROUPS, [])):
            for column in group[1]:
                covered += self._scan_column(number, column)
        for pair in footer.get(_KEY_VALUES, []):
            for value in _binaries(pair):
                self._search(value, "footer, key-value metadata")
        for field, value in footer.items():
            if field not in {_ROW_GROUPS, _KEY_VALUES}:
                for each in _binaries(value):
                    self._search(each, "footer, schema" if field == _SCHEMA else "footer")
        return covered

    def scan_headers(self, chunk: Chunk) -> list[range]:
        """Search the statistics in the headers of pages; gives what was covered."""
        for page in chunk.pages:
            for value in _binaries(page.fields):
                self._check(value, f"row group {chunk.row_group}, page header of column {chunk.column}")
        return [page.header for page in chunk.pages]

    def _scan_column(self, group: int, column: Struct) -> list[range]:
        metadata = column.get(3, {})
        name = ".".join(part.decode(errors="replace") for part in metadata.get(3, []))
        statistics = metadata.get(12, {})
        for field, value in statistics.items():
            if field in _STATISTICS:
                self._check(value, f"row group {group}, statistics of column {name}")
        for value in _binaries({field: value for field, value in metadata.items() if field != 12}):
            self._search(value, f"row group {group}, footer of column {name}")
        covered = [range(column[field], column[field] + column[field + 1]) for field in (4, 6) if field + 1 in column]
        if 6 in column and 7 in column:
            index = to_plain(read_struct(self._stream.read_at(column[7], column[6]))[0])
            for value in _binaries(index):
                self._check(value, f"row group {group}, page index of column {name}")
        return covered

    def _search(self, value: bytes, where: str) -> None:
        self._findings.add_from_text(self._findings.searcher.search(value), where)

    def _check(self, value: bytes, where: str) -> None:
        self._search(value, where)
        self._findings.check_statistic(where, value.decode(errors="ignore"))


def _binaries(value: Any) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, dict):
        for below in value.values():
            yield from _binaries(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _binaries(below)


def read_extents(stream: pa.NativeFile, extents: Sequence[range], overlap: int) -> Iterator[bytes]:
    """The content of these parts: small ones together, with a line end between them, large ones in overlapping blocks."""
    together: list[bytes] = []
    gathered = 0
    for extent in extents:
        size = max(BLOCK, 4 * overlap)
        for start in range(extent.start, extent.stop, size - overlap):
            content = stream.read_at(min(size, extent.stop - start), start)
            together.append(content)
            gathered += len(content)
            if gathered >= BLOCK:
                yield b"\n".join(together)
                together, gathered = [], 0
    if together:
        yield b"\n".join(together)
