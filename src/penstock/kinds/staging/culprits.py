"""Which raw file, and which column of it, has a value that stopped a load. Reads files again: only after an error. No JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from penstock.lake.few_rows import is_text
from penstock.model.text_files import is_text_file
from penstock.storage.files import Files


@dataclass(frozen=True, slots=True)
class Stop:
    """A kind of value that no table can hold."""

    what: str
    """What a file with such a value has."""
    hint: str
    is_in: Callable[[Any], bool]
    """Whether an Arrow column has such a value."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """Where such a value is."""

    path: str
    column: str


def find_culprit(raw: Files, paths: Sequence[str], stop: Stop) -> Culprit | None:
    """The first file and column with such a value; None when none of the files that can be read has one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in paths:
        if is_text_file(path):
            continue
        try:
            with raw.open(path) as stream:
                for batch in pq.ParquetFile(stream).iter_batches():
                    for name, column in zip(batch.schema.names, batch.columns, strict=True):
                        if stop.is_in(column):
                            return Culprit(path, name)
        except (pa.ArrowException, OSError, ValueError, OverflowError):  # or with values that Python does not have
            continue
    return None


def find_unloadable(paths: Sequence[str], can_load: Callable[[Sequence[str]], bool]) -> str | None:
    """The first file that cannot be loaded, found by halves; None when all can, each for itself or together.

    `can_load` tries some of them.
    """
    if not paths or can_load(paths):
        return None
    if len(paths) == 1:
        return paths[0]
    middle = len(paths) // 2
    return find_unloadable(paths[:middle], can_load) or find_unloadable(paths[middle:], can_load)


def _has_nanoseconds(column: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_timestamp(column.type) or column.type.unit != "ns":
        return False
    numbers = column.cast(pa.int64())
    thousand = pa.scalar(1000, pa.int64())
    rest = pc.subtract(numbers, pc.multiply(pc.divide(numbers, thousand), thousand))
    return bool(pc.any(pc.not_equal(rest, 0)).as_py())


def _has_other_text(column: Any) -> bool:
    """Whether a nested column has text that is not UTF-8."""
    import pyarrow as pa

    return pa.types.is_nested(column.type) and any(map(_is_other_text, _leaves(column)))


def _is_other_text(leaf: Any) -> bool:
    import pyarrow as pa

    return (pa.types.is_string(leaf.type) or pa.types.is_large_string(leaf.type)) and not is_text(leaf)


def _has_equal_keys(column: Any) -> bool:
    """Whether a map at any depth has a key twice."""
    import pyarrow as pa

    if pa.types.is_map(column.type):
        offsets, keys = column.offsets.to_pylist(), _to_comparable(column.keys).to_pylist()
        for start, end in pairwise(offsets):
            found = [repr(key) for key in keys[start:end]]
            if len(set(found)) < len(found):
                return True
    return any(map(_has_equal_keys, _children(column)))


def _to_comparable(keys: Any) -> Any:
    """Keys as values that Python has, and that are equal where Spark's are: text need not be UTF-8, nor a date before 9999."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type):
        return keys.cast(pa.large_binary())
    if pa.types.is_date(keys.type) or pa.types.is_timestamp(keys.type):
        return keys.view(pa.int32() if keys.type.bit_width == 32 else pa.int64())
    if pa.types.is_float32(keys.type) or pa.types.is_float64(keys.type):
        return pc.add(keys, pa.scalar(0.0, keys.type))  # -0.0 becomes 0.0
    return keys


def _leaves(column: Any) -> Iterable[Any]:
    children = list(_children(column))
    if not children:
        yield column
    for child in children:
        yield from _leaves(child)


def _children(column: Any) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_struct(column.type):
        return [column.field(place) for place in range(column.type.num_fields)]
    if pa.types.is_map(column.type):
        return [column.keys, column.items]
    if pa.types.is_dictionary(column.type):
        return [column.dictionary]
    is_list = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return [column.values] if any(test(column.type) for test in is_list) else []


NANOSECONDS = Stop(
    "timestamps with nanoseconds, which Spark would truncate to microseconds",
    "write them with microseconds, or store them as text: declare the column as string in penstock.yml",
    _has_nanoseconds,
)
OTHER_TEXT = Stop(
    "text inside a nested column that is not UTF-8, which JSON cannot hold",
    "write it as UTF-8, or keep the bytes: write it as binary, or set nested: struct for the table",
    _has_other_text,
)
EQUAL_KEYS = Stop(
    "a map with the same key twice, which Spark refuses",
    "write each key once, or write the map as a list of pairs",
    _has_equal_keys,
)
