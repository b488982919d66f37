"""Reads Thrift's compact protocol without a schema: enough for the headers, indexes and footers of Parquet files."""

from __future__ import annotations

from typing import Any, TypeAlias

Struct: TypeAlias = dict[int, Any]
"""Values by field number; booleans, whole numbers, floats as bytes, bytes, lists and structs."""

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 11, 12, 13
_MOST_NESTED = 32


class ThriftError(ValueError):
    """The bytes are not a struct in the compact protocol."""


class CompactReader:
    """Reads structs from a buffer; `place` is where the next one begins."""

    def __init__(self, content: bytes | memoryview, place: int = 0) -> None:
        self._content = content
        self.place = place
        self._depth = 0

    def read_struct(self) -> Struct:
        """The struct at `place`."""
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise ThriftError
        fields: Struct = {}
        number = 0
        while header := self._byte():
            step, kind = header >> 4, header & 0x0F
            number = number + step if step else self._zigzag()
            fields[number] = kind == _TRUE if kind in {_TRUE, _FALSE} else self._value(kind)
        self._depth -= 1
        return fields

    def _value(self, kind: int) -> Any:
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.read_struct()
        if kind in {_LIST, _SET}:
            return self._list()
        if kind in {4, 5, 6}:
            return self._zigzag()
        if kind in {_TRUE, _FALSE, _BYTE}:
            return self._byte()
        if kind == _DOUBLE:
            return self._take(8)
        if kind == _MAP:
            return self._map()
        if kind == _UUID:
            return self._take(16)
        raise ThriftError

    def _list(self) -> list[Any]:
        header = self._byte()
        count, kind = header >> 4, header & 0x0F
        if count == 15:
            count = self._varint()
        if count > len(self._content) - self.place:  # every element takes a byte at least
            raise ThriftError
        return [self._value(kind) for _ in range(count)]

    def _map(self) -> list[Any]:
        count = self._varint()
        if count > len(self._content) - self.place:
            raise ThriftError
        kinds = self._byte() if count else 0
        return [(self._value(kinds >> 4), self._value(kinds & 0x0F)) for _ in range(count)]

    def _byte(self) -> int:
        if self.place >= len(self._content):
            raise ThriftError
        self.place += 1
        return self._content[self.place - 1]

    def _varint(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7
            if shift > 63:
                raise ThriftError

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _take(self, count: int) -> bytes:
        if count > len(self._content) - self.place:
            raise ThriftError
        self.place += count
        return bytes(self._content[self.place - count : self.place])
