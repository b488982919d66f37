"""A checksum of rows in their order: every bit of every value counts, however the rows are cut into batches."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class RowsDigest:
    """Adds up Arrow arrays of one column. Floats count by their bits; what lies below a NULL does not count."""

    def __init__(self) -> None:
        self._parts: dict[str, Any] = {}

    def add(self, array: Any) -> None:
        """The next rows: an array or a chunked array."""
        for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else (array,):
            self._add("", chunk)

    def hexdigest(self) -> str:
        total = hashlib.sha256()
        for place, part in sorted(self._parts.items()):
            total.update(f"{place}:{part.hexdigest()};".encode())
        return total.hexdigest()

    def _update(self, place: str, content: Any) -> None:
        part = self._parts.get(place)
        if part is None:
            part = self._parts[place] = hashlib.sha256()
        part.update(content)

    def _add(self, place: str, array: Any) -> None:
        array = _plain(array)
        self._update(f"{place}?", _fixed_bytes(pc.is_valid(array)))
        if pa.types.is_struct(array.type):
            for number, child in enumerate(array.flatten()):  # a child is NULL where its parent is
                self._add(f"{place}/{number}", child)
        elif pa.types.is_nested(array.type):
            self._update(f"{place}#", _fixed_bytes(pc.list_value_length(array).drop_null()))
            self._add(f"{place}*", array.flatten())
        elif pa.types.is_large_binary(array.type):
            values = array.drop_null()
            self._update(f"{place}#", _fixed_bytes(pc.binary_length(values)))
            self._update(place, _binary_bytes(values))
        elif not pa.types.is_null(array.type):
            self._update(place, _fixed_bytes(array.drop_null()))


def _plain(array: Any) -> Any:
    """The array in a form with few cases: no extension, no dictionary, text as long binary, maps as lists."""
    if isinstance(array.type, pa.BaseExtensionType):
        return _plain(array.storage)
    if pa.types.is_dictionary(array.type):
        return _plain(array.dictionary_decode())
    if pa.types.is_map(array.type):
        return array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
    if pa.types.is_fixed_size_binary(array.type) or not _is_bytes(array.type):
        return array
    return array.cast(pa.large_binary())


def _is_bytes(type_: Any) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(type_) for test in (*tests, pa.types.is_string_view, pa.types.is_binary_view))


def _fixed_bytes(array: Any) -> Any:
    """The values of an array of a fixed width, without NULLs."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = array.type.bit_width // 8
    content = array.buffers()[1]
    if content is None or not len(array):
        return b""
    return memoryview(content)[array.offset * width : (array.offset + len(array)) * width]


def _binary_bytes(array: Any) -> Any:
    if not len(array):
        return b""
    _, offsets, content = array.buffers()
    places = memoryview(offsets).cast("q")
    start, end = places[array.offset], places[array.offset + len(array)]
    return memoryview(content)[start:end] if content is not None else b""
