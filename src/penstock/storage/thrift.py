"""Structs of Thrift's compact protocol as plain values, for who only reads them: dicts by field number, and lists.

Made for speed, because a plan reads the footers of thousands of files: numbers of one byte, and lists of them, take no call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_WHOLE = frozenset({_I16, _I32, _I64})
_LONG_FORM = 15
_MOST_BITS = 63
"""Of a number; a longer one is damage."""


class ThriftError(ValueError):
    """The bytes are not a struct in the compact protocol."""


def read_plain(content: bytes) -> dict[int, Any]:
    """The struct at the start of these bytes; ThriftError where there is none."""
    try:
        return _read_struct(content, 0)[0]
    except KeyError as error:
        raise ThriftError(f"footers have no wire type {error}") from None
    except IndexError:
        raise ThriftError("the struct is cut off") from None
    except RecursionError:
        raise ThriftError("the struct is nested too deeply") from None


def _read_struct(content: bytes, place: int) -> tuple[dict[int, Any], int]:
    found: dict[int, Any] = {}
    number = 0
    while head := content[place]:
        place += 1
        wire_type = head & 0x0F
        if head > 0x0F:
            number += head >> 4
        else:
            number, place = _read_whole(content, place)
        if wire_type in _WHOLE:
            value = content[place]
            if value < 0x80:
                place += 1
            else:  # two bytes, or more
                more = content[place + 1]
                if more < 0x80:
                    value, place = value & 0x7F | more << 7, place + 2
                else:
                    value, place = _read_varint(content, place)
            found[number] = (value >> 1) ^ -(value & 1)
        elif wire_type <= _FALSE:
            found[number] = wire_type == _TRUE
        else:
            found[number], place = _READERS[wire_type](content, place)
    return found, place + 1


def _read_list(content: bytes, place: int) -> tuple[list[Any], int]:
    head = content[place]
    size, place = (head >> 4, place + 1) if head >> 4 != _LONG_FORM else _read_varint(content, place + 1)
    wire_type = head & 0x0F
    if wire_type in _WHOLE:
        numbers = content[place : place + size]
        if len(numbers) == size and numbers.isascii():  # none of them continues in the next byte
            return [(value >> 1) ^ -(value & 1) for value in numbers], place + size
    found: list[Any] = []
    if not size:
        return found, place
    read = _READERS[wire_type]
    for _ in range(size):
        value, place = read(content, place)
        found.append(value)
    return found, place


def _read_byte(content: bytes, place: int) -> tuple[int, int]:
    return content[place], place + 1


def _read_double(content: bytes, place: int) -> tuple[bytes, int]:
    return _cut(content, place, 8)


def _read_binary(content: bytes, place: int) -> tuple[bytes, int]:
    size = content[place]
    place += 1
    if size > 0x7F:
        size, place = _read_varint(content, place - 1)
    return _cut(content, place, size)


def _cut(content: bytes, place: int, size: int) -> tuple[bytes, int]:
    if place + size > len(content):
        raise IndexError
    return content[place : place + size], place + size


def _read_whole(content: bytes, place: int) -> tuple[int, int]:
    number, place = _read_varint(content, place)
    return (number >> 1) ^ -(number & 1), place


def _read_varint(content: bytes, place: int) -> tuple[int, int]:
    result = shift = 0
    while (byte := content[place]) > 0x7F:
        place += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if shift > _MOST_BITS:
            raise ThriftError("a number is too long")
    return result | byte << shift, place + 1


_READERS: Mapping[int, Callable[[bytes, int], tuple[Any, int]]] = {
    **dict.fromkeys((_TRUE, _FALSE, _BYTE), _read_byte),  # outside a struct, a boolean has a byte of its own
    **dict.fromkeys(_WHOLE, _read_whole),
    **dict.fromkeys((_LIST, _SET), _read_list),
    _DOUBLE: _read_double,
    _BINARY: _read_binary,
    _STRUCT: _read_struct,
}
