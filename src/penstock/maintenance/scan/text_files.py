"""Text files: every token is searched; lines and documents of JSON, and CSV, also by their declared columns."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import Any, BinaryIO, TextIO

from penstock.maintenance.scan.findings import Findings
from penstock.maintenance.scan.json_text import JsonScan, is_wanted
from penstock.maintenance.scan.search import Match
from penstock.maintenance.scan.sources import IN_MEMORY, Source, blocks

_WIDE = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class NotTextError(ValueError):
    """A file that began like text has something else further on."""


def is_text(head: bytes) -> bool:
    """Whether a file that begins so is text in UTF-8: valid, and without zero bytes."""
    return b"\0" not in head and _is_valid(codecs.getincrementaldecoder("utf-8")(), head, is_last=False)


def wide_encoding(head: bytes) -> str | None:
    """UTF-16 or UTF-32, if the file begins with the mark of one."""
    return next((name for mark, name in _WIDE.items() if head.startswith(mark)), None)


def to_utf8(source: Source, encoding: str) -> Source:
    """A text in UTF-16 or UTF-32 as one in UTF-8."""

    def open_converted() -> BinaryIO:
        return io.BufferedReader(_Converted(io.TextIOWrapper(source.open(), encoding=encoding, newline="")))

    return Source(source.name, -1, open_converted)


def search_text(source: Source, findings: Findings) -> None:
    """Search every token of a text; raises `NotTextError` at the first block that is not text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, read_until = 1, 0
    searcher = findings.searcher
    with source.open() as stream:
        for offset, block, is_last in blocks(stream, searcher.overlap):
            new = block[read_until - offset :]
            if b"\0" in new or not _is_valid(decoder, new, is_last=is_last):
                raise NotTextError
            matches = searcher.search(block, is_first=offset == 0, is_last=is_last)
            findings.add_from_text(matches, _Lines(block, line))
            read_until = offset + len(block)
            if not is_last:
                line += block[: len(block) - searcher.overlap].count(b"\n")


def scan_json(source: Source, findings: Findings) -> str:
    """Look into every line that is JSON, or into the whole file; says what the file is."""
    if not is_wanted(findings):
        return "text"
    scan = JsonScan(findings, "")
    parsed = failed = 0
    with open_text(source) as stream:
        for number, line in enumerate(text_lines(stream), 1):
            if line.lstrip()[:1] in {"{", "["}:
                scan.where = f"line {number}"
                is_json = scan.scan(line.strip())
                parsed, failed = parsed + is_json, failed + (not is_json)
    if not failed:
        return "JSON" if parsed else "text"
    document = source.read() if parsed < failed else b""
    scan.where = "document"
    if document and scan.scan(document.decode("utf-8-sig")):
        return "JSON"
    if document is None:
        findings.undecoded.append("too large to be parsed as one JSON text; searched as text")
    elif parsed:
        findings.undecoded.append(f"{failed} lines begin like JSON and cannot be parsed; searched as text")
    return "JSON" if parsed else "text"


def open_text(source: Source) -> TextIO:
    """The text of a file in UTF-8, with its line ends as they are."""
    return io.TextIOWrapper(source.open(), encoding="utf-8-sig", newline="")


def text_lines(stream: TextIO) -> Iterator[str]:
    """The lines of a text; a line that does not fit into memory comes in pieces."""
    return iter(lambda: stream.readline(IN_MEMORY), "")


class _Lines:
    """The line of a match, counted only when there is one."""

    def __init__(self, block: bytes, first: int) -> None:
        self._block, self._first = block, first

    def __call__(self, match: Match) -> str:
        if match.is_escaped:
            return f"line {self._first} or later"
        line = self._first + self._block.count(b"\n", 0, match.start)
        return f"line {line}"


def _is_valid(decoder: codecs.IncrementalDecoder, content: bytes, *, is_last: bool) -> bool:
    try:
        decoder.decode(content, is_last)
    except UnicodeDecodeError:
        return False
    return True


class _Converted(io.RawIOBase):
    """A text stream as bytes in UTF-8."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = self._stream.read(1 << 20).encode(errors="surrogatepass")
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._stream.close()
        super().close()
