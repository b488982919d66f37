"""The byte sequences by which a needle is found: its text in every encoding, and its beginning for truncated statistics."""

from __future__ import annotations

import base64
import unicodedata
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum

from penstock.maintenance.scan.needles import Needle, find_beginning

SHORTEST = 8
"""Bytes; anything shorter would be found everywhere."""


class Encoding(StrEnum):
    """How a pattern spells its text; the name is what a hit says."""

    UTF8 = "text"
    UTF16_LE = "UTF-16"
    UTF16_BE = "UTF-16 (big-endian)"
    LATIN1 = "Latin-1"
    BASE64 = "base64"
    BYTES = "bytes"


CODECS = {
    Encoding.UTF8: "utf-8",
    Encoding.UTF16_LE: "utf-16-le",
    Encoding.UTF16_BE: "utf-16-be",
    Encoding.LATIN1: "latin-1",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One byte sequence to look for."""

    content: bytes = field(repr=False)
    needle: int
    encoding: Encoding
    plain: bytes = field(repr=False)
    """The bytes that the content stands for: for base64 those that were encoded, else the content."""
    text: str = field(repr=False)
    is_beginning: bool = False
    skipped: int = 0
    """Base64 only: characters between the start of a group of four and the content."""


def find_texts(needle: Needle) -> frozenset[str]:
    """Every text of a needle that is long enough to be searched as bytes, composed and decomposed."""
    if any(isinstance(value, bool) or _is_date(value) for value in needle.values):
        return frozenset()
    spellings = {needle.text}
    for value in needle.values:
        if isinstance(value, str | uuid.UUID | int | float | Decimal):
            spellings.add(str(value))
        elif isinstance(value, datetime):
            spellings |= _spell_time(value)
    forms = {unicodedata.normalize(form, text) for text in spellings for form in ("NFC", "NFD")} | spellings
    return frozenset(text for text in forms if len(text.encode(errors="surrogatepass")) >= SHORTEST)


def find_contents(needle: Needle) -> frozenset[bytes]:
    """Binary values of a needle that are long enough to be searched as bytes."""
    contents = (value.bytes if isinstance(value, uuid.UUID) else value for value in needle.values)
    return frozenset(
        bytes(value) for value in contents if isinstance(value, bytes | bytearray) and len(value) >= SHORTEST
    )


def make_patterns(number: int, needle: Needle) -> Iterator[Pattern]:
    """Every pattern of a needle; none when it is too short."""
    for text in sorted(find_texts(needle)):
        yield from _of_text(number, text)
    for content in sorted(find_contents(needle)):
        readable = content.decode(errors="replace")
        yield Pattern(content, number, Encoding.BYTES, content, readable)
        yield from _in_base64(number, content, readable)


def _of_text(number: int, text: str) -> Iterator[Pattern]:
    for encoding in (Encoding.UTF8, Encoding.UTF16_LE, Encoding.UTF16_BE):
        content = text.encode(CODECS[encoding], errors="surrogatepass")
        yield Pattern(content, number, encoding, content, text)
    if not text.isascii() and (narrow := text.encode("latin-1", errors="ignore")).decode("latin-1") == text:
        yield Pattern(narrow, number, Encoding.LATIN1, narrow, text)
    yield from _in_base64(number, text.encode(errors="surrogatepass"), text)
    beginning = find_beginning(text)
    if beginning is not None and len(beginning.encode()) >= SHORTEST:
        content = beginning.encode()
        yield Pattern(content, number, Encoding.UTF8, content, beginning, is_beginning=True)


def _in_base64(number: int, plain: bytes, text: str) -> Iterator[Pattern]:
    """The characters that encode nothing but the value, for each place of its first byte in a group of three."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + plain + bytes(3))
        first, last = -(-8 * before // 6), 8 * (before + len(plain)) // 6
        core = encoded[first:last]
        for content in {core, core.translate(_TO_URL)}:
            yield Pattern(content, number, Encoding.BASE64, plain, text, skipped=first)


_TO_URL = bytes.maketrans(b"+/", b"-_")
FROM_URL = bytes.maketrans(b"-_", b"+/")
BASE64_CHARACTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")


def _spell_time(value: datetime) -> set[str]:
    """A time as it was given, and in UTC as Delta and Spark write it."""
    utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    plain = {moment.isoformat(sep=separator) for moment in (value, utc) for separator in "T "}
    return plain | {f"{utc.isoformat()}Z", f"{utc.isoformat(timespec='milliseconds')}Z"}


def _is_date(value: object) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime)


def longest_of(patterns: Iterable[Pattern]) -> int:
    """The length of the longest pattern; 0 when there is none."""
    return max((len(pattern.content) for pattern in patterns), default=0)
