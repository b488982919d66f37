"""Thrift's compact protocol, as far as Parquet footers and page headers use it: bytes to plain values and back.

A value keeps its wire type, so that what is not understood here is written again as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_TRUE, _FALSE = 1, 2
BOOL, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
_WHOLE = (I16, I32, I64)
_LONG_FORM = 15
_UUID = 13
_MOST_BITS = 63
"""Of a number; a longer one is damage."""


class ThriftError(ValueError):
    """The bytes are not a struct in the compact protocol."""


@dataclass(slots=True)
class Fields:
    """A struct: its fields by number, each with its wire type. Names are the business of the reader."""

    items: dict[int, tuple[int, Any]] = field(default_factory=dict)

    def get(self, number: int, default: Any = None) -> Any:
        """The value of a field, or the default where it is not set."""
        found = self.items.get(number)
        return default if found is None else found[1]

    def has(self, number: int) -> bool:
        return number in self.items

    def set(self, number: int, wire_type: int, value: Any) -> None:
        self.items[number] = (wire_type, value)

    def drop(self, *numbers: int) -> None:
        for number in numbers:
            self.items.pop(number, None)

    def copy(self) -> Fields:
        """A copy whose fields can be replaced; the values are shared."""
        return Fields(dict(self.items))


@dataclass(slots=True)
class Items:
    """A list or set, with the wire type of its elements."""

    wire_type: int
    values: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Pairs:
    """A map, with the wire types of its keys and values."""

    key_type: int
    value_type: int
    values: list[tuple[Any, Any]] = field(default_factory=list)


def read_struct(content: bytes | memoryview, start: int = 0) -> tuple[Fields, int]:
    """The struct at a place, and where it ends; ThriftError where there is none."""
    reader = _Reader(bytes(content), start)
    try:
        found = reader.read_struct()
    except IndexError:
        raise ThriftError("the struct is cut off") from None
    except RecursionError:
        raise ThriftError("the struct is nested too deeply") from None
    return found, reader.place


def to_plain(value: Any) -> Any:
    """Values without their wire types, for those who only read: structs as dicts by field number, lists and pairs as lists."""
    match value:
        case Fields(items):
            return {number: to_plain(content) for number, (_, content) in items.items()}
        case Items(_, values):
            return [to_plain(each) for each in values]
        case Pairs(_, _, pairs):
            return [(to_plain(key), to_plain(content)) for key, content in pairs]
    return value


def write_struct(value: Fields) -> bytes:
    """The struct as bytes."""
    target = bytearray()
    _write_struct(target, value)
    return bytes(target)


class _Reader:
    def __init__(self, content: bytes, place: int) -> None:
        self.content = content
        self.place = place

    def read_struct(self) -> Fields:
        found: dict[int, tuple[int, Any]] = {}
        number = 0
        while True:
            head = self.content[self.place]
            self.place += 1
            if head == 0:
                return Fields(found)
            wire_type = head & 0x0F
            number = number + (head >> 4) if head >> 4 else self._whole()
            if wire_type in {_TRUE, _FALSE}:
                found[number] = (BOOL, wire_type == _TRUE)
            else:
                found[number] = (wire_type, self._value(wire_type))

    def _varint(self) -> int:
        content, place = self.content, self.place
        result = shift = 0
        while True:
            byte = content[place]
            place += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.place = place
                return result
            shift += 7
            if shift > _MOST_BITS:
                raise ThriftError("a number is too long")

    def _whole(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _bytes(self, size: int) -> bytes:
        start, self.place = self.place, self.place + size
        if self.place > len(self.content):
            raise IndexError
        return self.content[start : self.place]

    def _value(self, wire_type: int) -> Any:
        if wire_type in _WHOLE:
            return self._whole()
        if wire_type == BINARY:
            return self._bytes(self._varint())
        if wire_type == STRUCT:
            return self.read_struct()
        if wire_type in {LIST, SET}:
            return self._items()
        if wire_type == DOUBLE:
            return self._bytes(8)
        if wire_type == BYTE:
            return self._bytes(1)
        if wire_type == MAP:
            return self._pairs()
        if wire_type == _UUID:
            return self._bytes(16)
        raise ThriftError(f"there is no wire type {wire_type}")

    def _items(self) -> Items:
        head = self._bytes(1)[0]
        size = head >> 4 if head >> 4 != _LONG_FORM else self._varint()
        wire_type = head & 0x0F
        return Items(wire_type, [self._element(wire_type) for _ in range(size)])

    def _pairs(self) -> Pairs:
        size = self._varint()
        types = self._bytes(1)[0] if size else 0
        key, value = types >> 4, types & 0x0F
        return Pairs(key, value, [(self._element(key), self._element(value)) for _ in range(size)])

    def _element(self, wire_type: int) -> Any:
        if wire_type in {_TRUE, _FALSE}:  # a boolean outside a struct has a byte of its own
            return self._bytes(1)[0] == _TRUE
        return self._value(wire_type)


def _write_struct(target: bytearray, value: Fields) -> None:
    last = 0
    for number, (wire_type, content) in sorted(value.items.items()):
        code = (_TRUE if content else _FALSE) if wire_type == BOOL else wire_type
        if 0 < number - last < _LONG_FORM + 1:
            target.append((number - last) << 4 | code)
        else:
            target.append(code)
            _write_whole(target, number)
        last = number
        if wire_type != BOOL:
            _write_value(target, wire_type, content)
    target.append(0)


def _write_varint(target: bytearray, value: int) -> None:
    while value > 0x7F:
        target.append(value & 0x7F | 0x80)
        value >>= 7
    target.append(value)


def _write_whole(target: bytearray, value: int) -> None:
    _write_varint(target, value << 1 if value >= 0 else (-value << 1) - 1)


def _write_value(target: bytearray, wire_type: int, value: Any) -> None:
    if wire_type in _WHOLE:
        _write_whole(target, value)
    elif wire_type == BINARY:
        _write_varint(target, len(value))
        target += value
    elif wire_type == STRUCT:
        _write_struct(target, value)
    elif wire_type in {LIST, SET}:
        _write_items(target, value)
    elif wire_type == MAP:
        _write_pairs(target, value)
    else:
        target += value


def _write_items(target: bytearray, items: Items) -> None:
    size = len(items.values)
    target.append(min(size, _LONG_FORM) << 4 | items.wire_type)
    if size >= _LONG_FORM:
        _write_varint(target, size)
    for value in items.values:
        _write_element(target, items.wire_type, value)


def _write_pairs(target: bytearray, pairs: Pairs) -> None:
    _write_varint(target, len(pairs.values))
    if pairs.values:
        target.append(pairs.key_type << 4 | pairs.value_type)
    for key, value in pairs.values:
        _write_element(target, pairs.key_type, key)
        _write_element(target, pairs.value_type, value)


def _write_element(target: bytearray, wire_type: int, value: Any) -> None:
    if wire_type in {_TRUE, _FALSE}:
        target.append(_TRUE if value else _FALSE)
    else:
        _write_value(target, wire_type, value)
