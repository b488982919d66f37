"""Records of CSV files: the header names the columns, and every record is a row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.maintenance.files.csv_records import SPACES, CsvReader
from penstock.maintenance.files.json_scan import Found, IsGone
from penstock.maintenance.files.text_format import Dialect
from penstock.maintenance.files.values import RecordError

_NO_CHARACTER = "\0"


class CsvRow(Mapping[str, Any]):
    """A row by column name in lower case. A value that is not certain raises when it is asked for, and not before."""

    def __init__(self, names: Sequence[str], values: Sequence[str | None], null_value: str) -> None:
        self._names = names
        self._values = values
        self._null_value = null_value

    def __getitem__(self, name: str) -> str | None:
        try:
            place = self._names.index(name)
        except ValueError:
            raise KeyError(name) from None
        if place >= len(self._values):
            return None
        value = self._values[place]
        if value is None:
            raise RecordError(f"the quotes in the column {name!r} are not escaped")
        return None if value == self._null_value else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class CsvRows:
    """Rows of one CSV file, record by record; the first record is the header, where there is one."""

    def __init__(self, dialect: Dialect, is_gone: IsGone) -> None:
        self._dialect = dialect
        self._is_gone = is_gone
        self._names = [name.lower() for name in dialect.names]
        self._needs_header = dialect.header

    def is_row(self) -> bool:
        """Whether the next record is a row, not the header."""
        return not self._needs_header

    def is_gone(self, values: Sequence[str | None]) -> bool:
        """Whether this record must go; the header never."""
        if self._needs_header:
            self._needs_header = False
            self._names = list(_to_names(values, self._dialect.null_value))
            return False
        for place in range(len(self._names), len(values) if not self._dialect.names else 0):
            self._names.append(f"_c{place}")
        return self._is_gone(CsvRow(self._names, values, self._dialect.null_value))


def _to_names(values: Sequence[str | None], null_value: str) -> Iterator[str]:
    """The names of columns, as Spark makes them: unnamed ones have a number, and repeated ones get theirs added."""
    if None in values:
        raise RecordError("the quotes in the header are not escaped")
    lowered = [(value or "").lower() for value in values]
    for place, (value, name) in enumerate(zip(values, lowered, strict=True)):
        if not value or value == null_value:
            yield f"_c{place}"
        else:
            yield name if lowered.count(name) == 1 else f"{name}{place}"


def scan_csv_line(text: str, reader: CsvReader, rows: CsvRows) -> tuple[bool, bool]:
    """Whether a line, without its end, is a record (not blank, a comment or the header), and whether it must go."""
    comment = reader.dialect.comment
    if not text.strip(SPACES) or (comment != _NO_CHARACTER and text.startswith(comment)):
        return False, False
    is_row = rows.is_row()
    values, end = reader.read(text, 0)
    if end != len(text):
        raise RecordError("the record ends before the line")
    return is_row, rows.is_gone(values)


def scan_csv(text: str, dialect: Dialect, line_end: str | None, is_gone: IsGone) -> Found:
    """A whole text, whose quoted values may have line ends in them."""
    reader, rows = CsvReader(dialect, *_find_line_ends(text, line_end)), CsvRows(dialect, is_gone)
    records, cuts, place = 0, [], 0
    while place < len(text):
        if dialect.comment != _NO_CHARACTER and text.startswith(dialect.comment, place):
            place = _skip_line(text, place, reader.line_ends[0])
            continue
        is_row = rows.is_row()
        values, end = reader.read(text, place)
        content = text[place:end].removesuffix(reader.line_ends[0])
        if not content or (dialect.strips_start and not content.strip(SPACES)):
            place = end
            continue
        records += is_row
        try:
            if rows.is_gone(values):
                cuts.append((place, end))
        except RecordError as error:
            raise RecordError(error.problem, place) from None
        place = end
    return Found(records, len(cuts), tuple(cuts))


def _find_line_ends(text: str, given: str | None) -> tuple[tuple[str, ...], bool]:
    """The line ends of a text, as Spark's reader finds them: by the first one, unless it is told; and if it converts them."""
    found = re.search("\r\n|\r|\n", text)
    first = given or (found[0] if found else "\n")
    if first == "\r":
        raise RecordError("lines end with CR")
    return (first,) if first == "\n" else (first, "\n"), given is None


def _skip_line(text: str, place: int, line_end: str) -> int:
    found = text.find(line_end, place)
    return len(text) if found < 0 else found + len(line_end)
