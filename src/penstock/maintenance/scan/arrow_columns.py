"""Columns in Arrow's memory: all texts are searched in one pass, and declared columns of any type by set membership."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from penstock.maintenance.scan.columns import Path, Values
from penstock.maintenance.scan.findings import Findings
from penstock.maintenance.scan.json_text import JsonScan, may_hold

_STATISTICS = {"minvalues", "maxvalues"}
_SEPARATOR = b"\n"


class ArrowScan:
    """Searches arrays, and those inside them."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def scan(self, array: pa.Array, path: Path, where: str) -> None:
        """Search an array; `where` says what it is, without the names of its fields."""
        type_ = array.type
        if isinstance(type_, pa.BaseExtensionType):
            self.scan(array.storage, path, where)
        elif pa.types.is_dictionary(type_):
            self.scan(array.dictionary, path, where)
        elif pa.types.is_struct(type_):
            for field, child in zip(type_, array.flatten(), strict=True):
                self.scan(child, (*path, field.name.lower()), where)
        elif pa.types.is_map(type_):
            self._scan_map(array, path, where)
        elif pa.types.is_nested(type_):
            if not pa.types.is_union(type_):
                self.scan(array.flatten(), path, where)
            else:
                self._findings.undecoded.append(f"{where}, column {'.'.join(path)}: a union cannot be searched")
        else:
            self.scan_leaf(array, path, f"{where}, column {'.'.join(path)}")

    def _scan_map(self, array: pa.Array, path: Path, where: str) -> None:
        """Keys and values are searched; an entry also counts as a column that is named by its key."""
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        keys, values = (child.slice(first, last - first) for child in (array.keys, array.items))
        self.scan(keys, (*path, "key"), where)
        self.scan(values, (*path, "value"), where)
        if pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type):
            lower = pc.utf8_lower(keys)
            for declared in self._findings.columns.declared:
                *above, name = declared.parts
                if tuple(above) == path[len(path) - len(above) :]:
                    found = values.filter(pc.equal(lower, name))
                    self._compare(found, declared, f"{where}, column {'.'.join((*path, name))}")

    def scan_leaf(self, array: pa.Array, path: Path, where: str) -> None:
        """Search an array of plain values."""
        array = _to_common_type(array)
        for values in self._findings.columns.at(path):
            self._compare(array, values, where)
        if is_texts(array.type):
            self._search_texts(array, path, where)

    def _compare(self, array: pa.Array, values: Values, where: str) -> None:
        if pa.types.is_nested(array.type) or len(array) == 0:
            return
        if pa.types.is_time(array.type) or pa.types.is_duration(array.type) or pa.types.is_interval(array.type):
            self._findings.undecoded.append(f"{where}: values of type {array.type} cannot be compared")
            return
        wanted, needles = values.to_set(array.type)
        if len(wanted):
            found = pc.index_in(array, value_set=wanted).drop_null()
            self._findings.add_values(where, {needles[index] for index in pc.unique(found).to_pylist()})

    def _search_texts(self, array: pa.Array, path: Path, where: str) -> None:
        texts = array.drop_null() if array.null_count else array
        if not len(texts):
            return
        findings = self._findings
        block = join(texts)
        matches = findings.searcher.search(block)
        if matches and not _is_text_type(array.type) and not _is_utf8(block):
            self._judge_binary(texts, where)
        else:
            findings.add_from_text(matches, where)
        if _STATISTICS.intersection(path) and any(match.is_beginning for match in matches):
            for value in pc.unique(texts).to_pylist():
                findings.check_statistic(where, value if isinstance(value, str) else value.decode(errors="replace"))
        if may_hold(findings, block):
            self._look_into(texts, path, where)

    def _judge_binary(self, texts: pa.Array, where: str) -> None:
        """Values that are texts count by their tokens, all others by their bytes."""
        for value in texts.to_pylist():
            add = self._findings.add_from_text if _is_utf8(value) else self._findings.add_from_bytes
            add(self._findings.searcher.search(value), where)

    def _look_into(self, texts: pa.Array, path: Path, where: str) -> None:
        names = [re.escape(name) for name in self._findings.columns.names]
        names += ["minvalues", "maxvalues"] if self._findings.searcher.beginnings else []
        pattern = rf"(?i)(?:{'|'.join(names)})\\*\"\s*:"
        scan = JsonScan(self._findings, where)
        for value in texts.filter(pc.match_substring_regex(texts, pattern)).to_pylist():
            text = value if isinstance(value, str) else value.decode(errors="replace")
            if text.lstrip()[:1] in {"{", "["}:
                scan.scan(text.strip(), path)


def _to_common_type(array: pa.Array) -> pa.Array:
    """The array in a type that Arrow can search and compare."""
    if pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    if pa.types.is_binary_view(array.type):
        return array.cast(pa.binary())
    return array.cast(pa.float32()) if pa.types.is_float16(array.type) else array


def is_texts(type_: pa.DataType) -> bool:
    """Whether a column has texts or bytes."""
    return (
        _is_text_type(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def join(texts: pa.Array) -> bytes:
    """All values of an array without NULLs, one after the other, with a line end between them."""
    if pa.types.is_fixed_size_binary(texts.type):
        texts = texts.cast(pa.binary())
    kind = pa.LargeListArray if _is_large(texts.type) else pa.ListArray
    offsets = pa.array([0, len(texts)], pa.int64() if _is_large(texts.type) else pa.int32())
    joined = pc.binary_join(kind.from_arrays(offsets, texts), pa.scalar(_SEPARATOR, pa.binary()).cast(texts.type))
    content: bytes = joined[0].as_buffer().to_pybytes()
    return content


def _is_text_type(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_large(type_: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(type_) or pa.types.is_large_binary(type_))


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
