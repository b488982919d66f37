"""A text file of records, JSON or CSV, written again without some of them. Every other byte stays as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from penstock.maintenance.files.compression import DAMAGES, check_ending, open_compressed, open_plain
from penstock.maintenance.files.contents import aside_path, open_source, write_aside
from penstock.maintenance.files.csv_records import CsvReader
from penstock.maintenance.files.csv_scan import CsvRows, scan_csv, scan_csv_line
from penstock.maintenance.files.json_scan import Found, IsGone, scan_json
from penstock.maintenance.files.text_format import TextFormat
from penstock.maintenance.files.text_pieces import mark_of, split_lines, to_byte_ranges
from penstock.maintenance.files.values import RecordError, Rewritten, Where
from penstock.storage.files import Files

_STEP = 1 << 20
_FIX_RECORD = "correct or remove the record, then run again"


@dataclass(frozen=True, slots=True)
class _Scan:
    """What a file has: records, how many must go, and the ranges of bytes to cut for that, of the decompressed content."""

    records: int
    removed: int
    cuts: tuple[tuple[int, int], ...]


def rewrite_text(files: Files, path: str, format_: TextFormat, is_gone: IsGone) -> Rewritten:
    """Write the file again, aside, without the records that have a row which `is_gone` finds; refuse what cannot be read.

    A Debezium record goes when its row before, its row after, or its message key is gone.
    """
    where = Where.of(files, path)
    check_ending(path, where)
    with open_source(files, path) as source:
        scan = _scan(source.stream, path, format_, is_gone, where)
        old = replace(source.content, rows=scan.records)
        if not scan.cuts:
            return Rewritten(path, old, old)
        survivors: list[str] = []

        def write(target: BinaryIO) -> int:
            with open_plain(source.stream, path) as plain, open_compressed(target, path) as writer:
                survivors.append(_copy(plain, writer, scan.cuts))
            return scan.records - scan.removed

        def verify(target: BinaryIO) -> None:
            left = _scan(target, path, format_, is_gone, where)
            with open_plain(target, path) as plain:
                is_same = _sum(plain) == survivors[0]
            if not is_same or left.removed or left.records != scan.records - scan.removed:
                raise where.refuse("the new file does not have exactly the other records", hint="please report this")

        new = write_aside(source, write, verify)
    return Rewritten(path, old, new, aside_path(path), survivors[0])


def _scan(stream: BinaryIO, path: str, format_: TextFormat, is_gone: IsGone, where: Where) -> _Scan:
    with _damage_named(where), open_plain(stream, path) as plain:
        if format_.is_document:
            return _scan_document(plain.read(), format_, is_gone, where)
        return _scan_lines(plain, format_, is_gone, where)


def _scan_document(content: bytes, format_: TextFormat, is_gone: IsGone, where: Where) -> _Scan:
    try:
        base, encoding = mark_of(content, format_.encoding, is_document=True)
        text = content[base:].decode(encoding)
    except RecordError as error:
        raise where.refuse(error.problem, hint="set the option encoding to what it is") from None
    except UnicodeDecodeError:
        raise where.refuse(f"it is not {format_.encoding} text", hint="set the option encoding to what it is") from None
    try:
        if format_.format == "json":
            found = scan_json(text, format_, is_gone)
        else:
            found = scan_csv(text, format_.dialect, format_.line_end, is_gone)
    except RecordError as error:
        line = text.count("\n", 0, error.place) + 1
        raise where.refuse(error.problem, line=line, hint=_FIX_RECORD) from None
    return _Scan(found.records, found.removed, tuple(to_byte_ranges(text, encoding, found.cuts, base)))


def _scan_lines(plain: Any, format_: TextFormat, is_gone: IsGone, where: Where) -> _Scan:
    line_end = format_.line_end.encode(format_.encoding) if format_.line_end else None
    look = _json_looker(format_, is_gone) if format_.format == "json" else _csv_looker(format_, is_gone)
    records = removed = place = 0
    cuts: list[tuple[int, int]] = []
    for number, line in enumerate(split_lines(plain, line_end), start=1):
        base, encoding = mark_of(line, format_.encoding, is_document=False) if place == 0 else (0, format_.encoding)
        content = line[base:].removesuffix(line_end) if line_end else line[base:].rstrip(b"\r\n")
        try:
            found = look(content, encoding)
        except RecordError as error:
            raise where.refuse(error.problem, line=number, hint=_FIX_RECORD) from None
        records, removed = records + found.records, removed + found.removed
        is_whole = found.removed and found.removed == found.records == 1
        cuts += (
            [(place + base, place + len(line))]
            if is_whole
            else [(place + base + a, place + base + b) for a, b in found.cuts]
        )
        place += len(line)
    return _Scan(records, removed, tuple(cuts))


def _json_looker(format_: TextFormat, is_gone: IsGone) -> Any:
    def look(content: bytes, encoding: str) -> Found:
        text = content.decode(encoding, "replace")  # as Spark's reader does with bytes that are no text
        found = scan_json(text, format_, is_gone)
        if not found.cuts:
            return found
        if found.records > 1 and text.encode(encoding) != content:
            raise RecordError(f"the array has bytes that are not {encoding} text")
        return replace(found, cuts=tuple(to_byte_ranges(text, encoding, found.cuts, 0)))

    return look


def _csv_looker(format_: TextFormat, is_gone: IsGone) -> Any:
    reader, rows = CsvReader(format_.dialect), CsvRows(format_.dialect, is_gone)

    def look(content: bytes, encoding: str) -> Found:
        is_row, gone = scan_csv_line(content.decode(encoding, "replace"), reader, rows)
        return Found(int(is_row), int(gone))

    return look


def _copy(plain: Any, writer: Any, cuts: Sequence[tuple[int, int]]) -> str:
    """Copy everything but the ranges; return a hash of what was copied."""
    digest, place = hashlib.sha256(), 0
    for start, end in (*cuts, (None, None)):
        while chunk := plain.read(_STEP if start is None else min(_STEP, start - place)):
            digest.update(chunk)
            writer.write(chunk)
            place += len(chunk)
        if end is not None:
            _skip(plain, end - place)
            place = end
    return digest.hexdigest()


def _skip(plain: Any, size: int) -> None:
    while size > 0:
        size -= len(plain.read(min(_STEP, size)))


def _sum(plain: Any) -> str:
    digest = hashlib.sha256()
    while chunk := plain.read(_STEP):
        digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _damage_named(where: Where) -> Iterator[None]:
    try:
        yield
    except DAMAGES as error:
        kind = type(error).__name__
        raise where.refuse(f"it cannot be read ({kind})", hint="restore the file or remove it") from None
