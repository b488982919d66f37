"""SQLite databases as pages: free pages, unused space, and what a write-ahead log keeps.

What a deleted row left behind in a free page or in unused space counts in any case. Rows of the database itself are read by
SQL; those in frames of a write-ahead log are judged by the value that holds the occurrence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from penstock.maintenance.scan.extents import between
from penstock.maintenance.scan.findings import Findings
from penstock.maintenance.scan.sources import read_exactly

MAGIC = b"SQLite format 3\x00"
LOG_MAGICS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_HEADER = 100
"""Bytes before the first page's own content."""
_TABLE_LEAF, _TABLE_INTERIOR, _INDEX_LEAF, _INDEX_INTERIOR = 13, 5, 10, 2
_WIDTHS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}
"""Bytes of a value by its serial type; texts and blobs have greater types."""
_PAGES_AT_ONCE = 256


class PageError(ValueError):
    """A page does not have the form of its kind."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a database is cut into pages."""

    page_size: int
    reserved: int = 0

    @property
    def usable(self) -> int:
        return self.page_size - self.reserved


@dataclass(frozen=True, slots=True)
class Cell:
    """One row or key on a page."""

    extent: range
    payload: range
    """The part of its record that is on this page."""


def search_pages(stream: BinaryIO, head: bytes, findings: Findings) -> None:
    """Search every page of a database, except rows."""
    size = int.from_bytes(head[16:18], "big")
    layout = Layout(65536 if size == 1 else size, head[20])
    free = frozenset(_free_pages(stream, layout, int.from_bytes(head[32:36], "big")))
    stream.seek(0)
    number = 1
    while content := read_exactly(stream, layout.page_size * _PAGES_AT_ONCE):
        if findings.searcher.search(content):
            for start in range(0, len(content), layout.page_size):
                image = content[start : start + layout.page_size]
                _search_page(image, number + start // layout.page_size, layout, free, findings)
        number += _PAGES_AT_ONCE


def search_log(stream: BinaryIO, findings: Findings) -> None:
    """Search a write-ahead log: frames of a header of 24 bytes and a page."""
    head = read_exactly(stream, 32)
    layout = Layout(int.from_bytes(head[8:12], "big"))
    if not 512 <= layout.page_size <= 65536:
        raise PageError
    frame = 0
    while content := read_exactly(stream, 24 + layout.page_size):
        frame += 1
        if findings.searcher.search(content):
            where = f"frame {frame}, SQLite page {int.from_bytes(content[:4], 'big')}"
            _search_frame(content[24:], int.from_bytes(content[:4], "big"), layout, where, findings)


def _search_page(image: bytes, number: int, layout: Layout, free: frozenset[int], findings: Findings) -> None:
    searcher = findings.searcher
    if number in free:
        findings.add_from_bytes(searcher.search(image), f"SQLite free page {number}")
        return
    where = f"SQLite page {number}"
    try:
        cells = read_cells(image, layout, is_first=number == 1)
    except (PageError, IndexError):
        findings.add_from_bytes(searcher.search(image), where)
        return
    if cells is None:  # the rest of a long value, which SQL reads, and perhaps an older one behind it
        findings.add_from_text(searcher.search(image[4:]), where)
        return
    _search_unused(image, cells, f"{where}, unused space", findings)


def _search_frame(image: bytes, number: int, layout: Layout, where: str, findings: Findings) -> None:
    searcher = findings.searcher
    try:
        cells = read_cells(image, layout, is_first=number == 1)
        values = [value for cell in cells or () for value in read_values(image, cell.payload)]
    except (PageError, IndexError):
        findings.add_from_bytes(searcher.search(image), where)
        return
    if cells is None:
        findings.add_from_text(searcher.search(image[4:]), where)
        return
    for extent in values:
        findings.add_from_text(searcher.search(image[extent.start : extent.stop]), where)
    _search_unused(image, cells, f"{where}, unused space", findings)


def _search_unused(image: bytes, cells: list[Cell], where: str, findings: Findings) -> None:
    for extent in between([cell.extent for cell in cells], len(image)):
        findings.add_from_bytes(findings.searcher.search(image[extent.start : extent.stop]), where)


def read_cells(image: bytes, layout: Layout, *, is_first: bool) -> list[Cell] | None:
    """The cells of a page; None when it is no page of a table or an index."""
    start = _HEADER if is_first else 0
    kind = image[start]
    if kind not in {_TABLE_LEAF, _TABLE_INTERIOR, _INDEX_LEAF, _INDEX_INTERIOR}:
        return None
    is_interior = kind in {_TABLE_INTERIOR, _INDEX_INTERIOR}
    pointers = start + (12 if is_interior else 8)
    count = int.from_bytes(image[start + 3 : start + 5], "big")
    places = [int.from_bytes(image[pointers + 2 * n : pointers + 2 * n + 2], "big") for n in range(count)]
    if any(place < pointers + 2 * count or place >= layout.usable for place in places):
        raise PageError
    return [_read_cell(image, place, kind, layout) for place in places]


def _read_cell(image: bytes, place: int, kind: int, layout: Layout) -> Cell:
    start = place
    if kind in {_TABLE_INTERIOR, _INDEX_INTERIOR}:
        place += 4
    if kind == _TABLE_INTERIOR:
        _, place = _varint(image, place)
        return Cell(range(start, place), range(place, place))
    size, place = _varint(image, place)
    if kind == _TABLE_LEAF:
        _, place = _varint(image, place)
    local = _local_size(size, layout.usable, is_table=kind == _TABLE_LEAF)
    end = place + local
    if end > layout.usable:
        raise PageError
    return Cell(range(start, max(end + (4 if local < size else 0), start + 4)), range(place, end))


def _local_size(size: int, usable: int, *, is_table: bool) -> int:
    """How many bytes of a record are on its page; the rest is on overflow pages."""
    most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
    if size <= most:
        return size
    least = (usable - 12) * 32 // 255 - 23
    fitting = least + (size - least) % (usable - 4)
    return fitting if fitting <= most else least


def read_values(image: bytes, payload: range) -> Iterator[range]:
    """Where the values of a record are, as far as they are on this page."""
    if not payload:
        return
    size, place = _varint(image, payload.start)
    value = payload.start + size
    if value > payload.stop:  # a record of so many columns that its header does not fit: as one value
        yield payload
        return
    while place < payload.start + size:
        kind, place = _varint(image, place)
        width = _WIDTHS[kind] if kind in _WIDTHS else (kind - 12) // 2
        yield range(value, min(value + width, payload.stop))
        value = min(value + width, payload.stop)


def _free_pages(stream: BinaryIO, layout: Layout, trunk: int) -> Iterator[int]:
    """The numbers of pages that belong to no table: trunk pages and the leaves that they list."""
    seen: set[int] = set()
    while trunk and trunk not in seen:
        seen.add(trunk)
        yield trunk
        stream.seek((trunk - 1) * layout.page_size)
        image = read_exactly(stream, layout.page_size)
        trunk, count = int.from_bytes(image[:4], "big"), int.from_bytes(image[4:8], "big")
        for place in range(8, min(8 + 4 * count, len(image)), 4):
            yield int.from_bytes(image[place : place + 4], "big")


def _varint(image: bytes, place: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    number = 0
    for count in range(8):
        byte = image[place + count]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, place + count + 1
    return number << 8 | image[place + 8], place + 9
