"""Text as bytes and as signs: lines, encodings and byte order marks."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from penstock.maintenance.files.values import RecordError

_STEP = 1 << 20
_ANY_END = re.compile(rb"\r\n|\r(?!\Z)|\n")
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""In this order: the mark of UTF-32 starts with that of UTF-16."""


def split_lines(stream: BinaryIO, line_end: bytes | None) -> Iterator[bytes]:
    """The lines of a stream with their ends: this one, or any of CR, LF and CR LF as Hadoop's line reader takes them."""
    rest = b""
    while chunk := stream.read(_STEP):
        rest += chunk
        place = 0
        for end in _find_ends(rest, line_end):
            yield rest[place:end]
            place = end
        rest = rest[place:]
    for line in re.split(rb"(?<=\r)", rest) if line_end is None else (rest,):
        if line:
            yield line


def _find_ends(content: bytes, line_end: bytes | None) -> Iterator[int]:
    """Where lines end. A CR at the very end may be the first half of an end: it waits for more."""
    if line_end is None:
        for found in _ANY_END.finditer(content):
            yield found.end()
        return
    place = content.find(line_end)
    while place >= 0:
        yield place + len(line_end)
        place = content.find(line_end, place + len(line_end))


def mark_of(content: bytes, encoding: str, *, is_document: bool) -> tuple[int, str]:
    """The size of the byte order mark that fits the encoding, and the encoding of what follows it.

    Without a mark, `utf-16` and `utf-32` are big-endian, as in Java. RecordError for a document with another mark: some readers
    follow it, others do not.
    """
    for mark, marked in _MARKS.items():
        if content.startswith(mark) and (marked == encoding or marked.startswith(f"{encoding}-")):
            return len(mark), marked
    if is_document and content.startswith(tuple(_MARKS)):
        raise RecordError(f"it has the byte order mark of another encoding than {encoding}")
    if content.startswith(codecs.BOM_UTF8):  # Hadoop's line reader skips it, whatever the encoding
        return len(codecs.BOM_UTF8), encoding
    return 0, f"{encoding}-be" if encoding in {"utf-16", "utf-32"} else encoding


def to_byte_ranges(text: str, encoding: str, ranges: Iterable[tuple[int, int]], base: int) -> Iterator[tuple[int, int]]:
    """Ranges of signs, in order, as ranges of bytes; `base` bytes come before the text."""
    place, byte = 0, base
    for start, end in ranges:
        byte += len(text[place:start].encode(encoding))
        size = len(text[start:end].encode(encoding))
        yield byte, byte + size
        place, byte = end, byte + size
