"""The records of a CSV file in blocks of text values. pyarrow splits fields; which records it may see is decided before."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.model.text_files import OnBadRow, TextEnding, TextFiles
from penstock.model.wording import counted
from penstock.storage.text.blocks import LINE_TEXT, LONGEST_RECORD, BadRow, Block, TextColumn, refuse
from penstock.storage.text.csv_structure import Dialect, Fault, Structure

EXTRA = "_extra"
"""The field, in a row of the quarantine, with the fields that a record has beyond the columns."""
_SMALL = 1 << 13
_QUOTE_HINT = "fix the record; if quotes have no meaning in this file, set files: quote: none"


@dataclass(slots=True)
class CsvFile:
    """One CSV file while it is read."""

    path: str
    settings: TextFiles
    ending: TextEnding
    names: list[str] = field(default_factory=list)
    """Known after the first block; empty when the file has no record at all."""
    _line: int = 1
    _window: int = 1 << 30
    """How much is looked at together: little, once there was a fault, because all after a fault is looked at again."""

    @property
    def dialect(self) -> Dialect:
        given = self.settings
        delimiter = given.delimiter if given.delimiter is not None else self.ending.delimiter
        escape = given.escape.encode() if given.escape and given.escape != given.quote else None
        return Dialect(delimiter.encode(), given.quote.encode() or None, escape)

    def read(self, pieces: Iterator[bytes]) -> Iterator[Block]:
        """The records in blocks; an error names the first bad record, unless bad records are to be put aside."""
        rest = b""
        for piece in _with_end(pieces):
            rest = yield from self._read_complete(rest + (piece or b""), is_end=piece is None)

    def _read_complete(self, text: bytes, *, is_end: bool) -> Generator[Block, None, bytes]:
        """Read the complete records of a text, and give back what is left."""
        place, window = 0, self._window
        while place < len(text):
            part = text[place : place + window]
            is_last = place + len(part) == len(text)
            structure = Structure(part, self.dialect, is_end and is_last)
            fault = structure.find_fault()
            certain = structure.find_cut() if fault is None else fault.start
            if certain:
                yield from self._read_records(structure.head(certain))
                place, window = place + certain, self._window
                continue
            end = text.find(b"\n", place + fault.place) + 1 if fault is not None else 0
            end = end or (len(text) if is_end else 0)
            if fault is not None and end:
                yield self._put_aside(text[place:end], fault)
                place, window = end, self._window
            elif is_last:  # more must be read before the next record is known
                break
            else:
                window *= 2
        self._check_length(text[place:])
        return text[place:]

    def _check_length(self, text: bytes) -> None:
        if len(text) > LONGEST_RECORD:
            raise refuse(self.path, f"a record has more than {LONGEST_RECORD:,} bytes", _QUOTE_HINT, self._line)

    def _put_aside(self, record: bytes, fault: Fault) -> Block:
        """The text from the start of a record to the end of the line with its fault: nothing in between is certain."""
        line = record.decode("utf-8", "backslashreplace").rstrip("\r\n")
        bad = BadRow(self._line, fault.problem, {LINE_TEXT: line}, _QUOTE_HINT)
        if not self.names and self.settings.header:
            raise refuse(self.path, f"the header cannot be read: {bad.problem}", bad.hint, bad.line)
        if fault.is_open:
            raise refuse(self.path, bad.problem, bad.hint, bad.line)
        self._check(bad)
        self._line += record.count(b"\n")
        self._window = _SMALL
        return Block(0, {}, np.array([], np.int64), (bad,))

    def _check(self, bad: BadRow) -> None:
        if self.settings.on_bad_row is OnBadRow.FAIL:
            hint = f"{bad.hint}, or set files: on_bad_row: quarantine"
            raise refuse(self.path, bad.problem, hint, bad.line)

    def _read_records(self, structure: Structure) -> Iterator[Block]:
        if not self.names:
            structure = Structure(self._read_names(structure.text), self.dialect, is_end=True)
        if self.names and structure.text:
            yield self._read_block(structure)

    def _read_names(self, text: bytes) -> bytes:
        """Take the names of the columns from the first record, and give back the text behind it, if that is a header."""
        stripped = text.lstrip(b"\r\n")
        self._line += text[: len(text) - len(stripped)].count(b"\n")
        if not stripped:
            return b""
        structure = Structure(stripped, self.dialect, is_end=True)
        end = int(structure.record_ends[0]) if len(structure.record_ends) else len(stripped)
        header = stripped[:end]
        width = int(Structure(header, self.dialect, is_end=True).count_fields([0], [len(header)])[0])
        if not self.settings.header:
            self.names = [f"_c{place}" for place in range(width)]
            return stripped
        self._check_header(header)
        texts = self._parse(header, [f"f{place}" for place in range(width)], is_plain=True)
        self.names = [text or f"_c{place}" for place, text in enumerate(column[0].as_py() for column in texts)]
        self._line += header.count(b"\n")
        return stripped[end:]

    def _check_header(self, header: bytes) -> None:
        problem = _find_text_problem(header.rstrip(b"\r\n"))
        if problem is not None or len(Structure(header, self.dialect, is_end=True).find_stray_returns()):
            found = problem or ("lines end with CR alone", "write the file with LF at the end of each line")
            raise refuse(self.path, f"the header cannot be read: {found[0]}", found[1], self._line)

    def _read_block(self, structure: Structure) -> Block:
        import pyarrow as pa

        text = structure.text
        is_suspect = b"\0" in text or (b"\r" in text and text.count(b"\r") != text.count(b"\r\n"))
        bad: tuple[BadRow, ...] = ()
        table = None
        if not is_suspect:
            try:
                table = self._parse(text, self.names, structure)
            except pa.ArrowInvalid:  # its message would quote a record
                table = None
        lines = None
        if table is None:
            text, bad, lines = self._drop_bad(structure)
            table = self._parse(text, self.names, Structure(text, self.dialect, is_end=True))
        rows = len(table[0])
        lines = self._number(structure, rows) if lines is None else lines
        self._line += structure.text.count(b"\n")
        if len(lines) != rows:
            raise refuse(self.path, "its records cannot be told apart", "please report this", int(self._line))
        columns = {name: TextColumn(values) for name, values in zip(self.names, table, strict=True)}
        return Block(rows, columns, lines, bad)

    def _number(self, structure: Structure, rows: int) -> Any:
        """The line where each record starts; blank lines are no records, unless there is only one column."""
        count = structure.text.count(b"\n") + (not structure.text.endswith(b"\n"))
        if count == rows and not structure.has_inner_line_ends:
            return np.arange(self._line, self._line + rows)
        starts, ends, before = structure.split()
        return self._line + before[self._is_record(starts, ends)]

    def _is_record(self, starts: Any, ends: Any) -> Any:
        return np.ones(len(starts), bool) if len(self.names) == 1 else ends > starts

    def _drop_bad(self, structure: Structure) -> tuple[bytes, tuple[BadRow, ...], Any]:
        """The text without records that cannot be read, these records, and the lines of the others."""
        starts, ends, before = structure.split()
        widths = structure.count_fields(starts, ends)
        is_record = self._is_record(starts, ends)
        strays = structure.find_stray_returns()
        is_stray = np.searchsorted(strays, starts) != np.searchsorted(strays, ends + 1)
        kept: list[int] = []
        bad: list[BadRow] = []
        for place in np.flatnonzero(is_record).tolist():
            record = structure.text[starts[place] : ends[place]]
            found = _find_text_problem(record) or self._find_width_problem(int(widths[place]))
            if is_stray[place] and found is None:
                found = ("it has a carriage return in it", "write LF, or CR LF, at the end of each line")
            if found is None:
                kept.append(place)
                continue
            bad.append(BadRow(self._line + int(before[place]), found[0], self._name_fields(record), found[1]))
            self._check(bad[-1])
        following = np.append(starts[1:], len(structure.text))
        text = b"".join(structure.text[starts[place] : following[place]] for place in kept)
        return text, tuple(bad), self._line + before[kept]

    def _find_width_problem(self, width: int) -> tuple[str, str] | None:
        if width == len(self.names):
            return None
        problem = f"it has {counted(width, 'field')}, but the file has {counted(len(self.names), 'column')}"
        missing = f": nothing for the column {self.names[width]!r}" if width < len(self.names) else ""
        return f"{problem}{missing}", "fix the record, check files: delimiter:"

    def _name_fields(self, record: bytes) -> dict[str, str | None]:
        """The fields of a bad record by the names of the columns, so that a person can be found in the quarantine."""
        import pyarrow as pa

        clean = record.decode("utf-8", "backslashreplace").replace("\0", "\ufffd").encode()
        width = int(Structure(clean, self.dialect, is_end=True).count_fields([0], [len(clean)])[0])
        names = [*self.names[:width], *(f"{EXTRA}{place}" for place in range(1, width - len(self.names) + 1))]
        try:
            texts = self._parse(clean, names, Structure(clean, self.dialect, is_end=True))
        except pa.ArrowInvalid:
            return {LINE_TEXT: clean.decode()}
        if any(len(column) != 1 for column in texts):
            return {LINE_TEXT: clean.decode()}
        return {name: column[0].as_py() for name, column in zip(names, texts, strict=True)}

    def _parse(
        self, text: bytes, names: Sequence[str], structure: Structure | None = None, *, is_plain: bool = False
    ) -> list[Any]:
        """The fields of certain records, column by column; `is_plain`: no field is NULL."""
        import pyarrow as pa
        from pyarrow import csv

        if not text:
            return [pa.array([], pa.string()) for _ in names]
        dialect, places = self.dialect, [str(place) for place in range(len(names))]
        text = _end_line(text, dialect)
        parse = csv.ParseOptions(
            delimiter=dialect.delimiter.decode(),
            quote_char=dialect.quote.decode() if dialect.quote else False,
            double_quote=dialect.escape is None,
            escape_char=dialect.escape.decode() if dialect.escape else False,
            newlines_in_values=structure is None or structure.has_inner_line_ends,
            ignore_empty_lines=len(names) > 1,
        )
        convert = csv.ConvertOptions(
            column_types=dict.fromkeys(places, pa.string()),
            null_values=[self.settings.null_text],
            strings_can_be_null=not is_plain,
            quoted_strings_can_be_null=self.settings.quoted_null,
        )
        for size in (1 << 20, len(text) + 1):  # a record that is larger than pyarrow's own blocks needs larger ones
            try:
                found = csv.read_csv(
                    io.BytesIO(text),
                    read_options=csv.ReadOptions(column_names=places, block_size=size),
                    parse_options=parse,
                    convert_options=convert,
                )
            except pa.ArrowInvalid:
                if size > len(text) or len(text) <= 1 << 20:
                    raise
                continue
            break
        return [_whole(column) for column in found.columns]


def _end_line(text: bytes, dialect: Dialect) -> bytes:
    """The text with a line end: without one, pyarrow takes an empty last field for a quoted one, if an earlier one was."""
    is_ended = text.endswith(b"\n") or (dialect.escape is not None and text.endswith(dialect.escape))
    return text if is_ended else text + b"\n"


def _whole(column: Any) -> Any:
    import pyarrow as pa

    found = column.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _find_text_problem(record: bytes) -> tuple[str, str] | None:
    """What is wrong with the bytes of a record, and what to do about it."""
    if b"\0" in record:
        return "it has a NUL byte", "set files: encoding: if the file is UTF-16, otherwise fix the record"
    try:
        record.decode()
    except UnicodeDecodeError:
        return "it has bytes that are not text in this encoding", "set files: encoding:, such as latin-1"
    return None


def _with_end(pieces: Iterator[bytes]) -> Iterator[bytes | None]:
    yield from pieces
    yield None
