"""Other readings of a block of bytes: JSON escapes and percent escapes replaced, as often as they are nested.

A value can be escaped in part (`ann%40example.org`, `\\u0061nn@example.org`) and more than once: Delta's log holds
statistics as JSON inside JSON, and percent-encodes the names of folders that are percent-encoded already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_MOST_NESTED = 4
_PERCENT = re.compile(rb"(?:%[0-9A-Fa-f]{2})+")
_ANY_PERCENT = re.compile(rb"%[0-9A-Fa-f]{2}")
_UNICODE = re.compile(rb"(?:\\u[0-9A-Fa-f]{4})+")
_ANY_JSON = re.compile(rb"\\(?:u[0-9A-Fa-f]{4}|[\"\\/bfnrt])")
_SIMPLE = {b'\\"': b'"', b"\\/": b"/", b"\\b": b"\b", b"\\f": b"\f", b"\\n": b"\n", b"\\r": b"\r", b"\\t": b"\t"}
_BACKSLASH = b"\x00\x01\x00"
"""Stands for an escaped backslash while the other escapes are replaced."""


def readings(block: bytes) -> Iterator[tuple[str, bytes]]:
    """The block with escapes replaced, in any order and up to four levels, each with what was replaced last.

    A value may itself look like an escape, such as `10%ab`, so that every level counts, not only the last one.
    """
    seen: set[bytes] = set()
    waiting = [(block, 0)]
    while waiting:
        reading, depth = waiting.pop()
        for form, unescaped in _replace(reading) if depth < _MOST_NESTED else ():
            if unescaped not in seen:
                seen.add(unescaped)
                waiting.append((unescaped, depth + 1))
                yield form, unescaped


def _replace(block: bytes) -> Iterator[tuple[str, bytes]]:
    if b"\\" in block and _ANY_JSON.search(block):
        yield "JSON-escaped", unescape_json(block)
    if b"%" in block and _ANY_PERCENT.search(block):
        yield "percent-encoded", unescape_percent(block)


def unescape_json(block: bytes) -> bytes:
    """The block with one level of JSON escapes replaced, wherever they are."""
    block = block.replace(b"\\\\", _BACKSLASH)
    block = _UNICODE.sub(_decode_unicode, block)
    for escape, character in _SIMPLE.items():
        block = block.replace(escape, character)
    return block.replace(_BACKSLASH, b"\\")


def unescape_percent(block: bytes) -> bytes:
    """The block with one level of percent escapes replaced."""
    return _PERCENT.sub(lambda match: bytes.fromhex(match[0].replace(b"%", b"").decode()), block)


def _decode_unicode(match: re.Match[bytes]) -> bytes:
    units = bytes.fromhex(match[0].replace(b"\\u", b"").decode())  # two bytes each: UTF-16, big-endian
    return units.decode("utf-16-be", errors="replace").encode()
