"""Declared columns: which values of a file are compared with which needles, in every format that names its columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import pyarrow as pa

from penstock.maintenance.scan.needles import Column, Needle
from penstock.maintenance.scan.patterns import SHORTEST
from penstock.maintenance.scan.typed_values import needle_keys, to_arrow, to_keys

Path = tuple[str, ...]
"""The names that lead to a value, in lower case."""


class Values:
    """The needles of one declared column."""

    def __init__(self, parts: Path, needles: Mapping[int, Needle], by_bytes: frozenset[int]) -> None:
        self.parts = parts
        self._needles = needles
        self._by_bytes = by_bytes
        self._sets: dict[pa.DataType, tuple[pa.Array, list[int]]] = {}
        self._lock = Lock()

    def find(self, value: object) -> frozenset[int]:
        """The needles that a value is equal to."""
        return frozenset().union(*(self._keys.get(key, ()) for key in to_keys(value)))

    def to_set(self, type_: pa.DataType) -> tuple[pa.Array, list[int]]:
        """The values to look for in an Arrow column of this type, and the needle of each.

        Texts and bytes that every search of bytes finds are left out.
        """
        with self._lock:
            if type_ not in self._sets:
                values: dict[Any, int] = {}
                for number, needle in self._needles.items():
                    for value in to_arrow(needle, type_):
                        if number not in self._by_bytes or not _is_long(value):
                            values[value] = number
                self._sets[type_] = pa.array(list(values), type_), list(values.values())
            return self._sets[type_]

    @cached_property
    def has_short_texts(self) -> bool:
        """Whether one of the needles can be a text or bytes that a search of bytes does not find."""
        return any(len(self.to_set(type_)[0]) for type_ in (pa.string(), pa.binary()))

    @cached_property
    def _keys(self) -> Mapping[str, frozenset[int]]:
        found: defaultdict[str, set[int]] = defaultdict(set)
        for number, needle in self._needles.items():
            for key in needle_keys(needle):
                found[key].add(number)
        return {key: frozenset(numbers) for key, numbers in found.items()}


@dataclass(frozen=True)
class FileColumns:
    """The declared columns that count in one file."""

    declared: tuple[Values, ...]

    @cached_property
    def names(self) -> frozenset[str]:
        """The last name of each column, in lower case."""
        return frozenset(values.parts[-1] for values in self.declared)

    @cached_property
    def _spellings(self) -> dict[str, tuple[Values, ...]]:
        """The columns that start with a name, by each spelling of it that was seen."""
        return {}

    @cached_property
    def _first(self) -> Mapping[str, tuple[Values, ...]]:
        return {
            name: tuple(values for values in self.declared if values.parts[0] == name)
            for name in {values.parts[0] for values in self.declared}
        }

    def at(self, path: Path) -> tuple[Values, ...]:
        """The declared columns whose names end a path: `email` is at `after.email` too."""
        return tuple(
            values
            for values in self.declared
            if path[-len(values.parts) :] == values.parts or ".".join(values.parts) == path[-1]
        )

    def find_in_object(self, record: Mapping[str, Any]) -> frozenset[int]:
        """The needles that an object of a JSON text has in the declared columns that start in it."""
        found: frozenset[int] = frozenset()
        for name in record:
            first = self._spellings.get(name)
            if first is None:
                first = self._spellings[name] = self._first.get(name.lower(), ())
            for values in first:
                for each in _follow(record[name], values.parts[1:]):
                    found |= values.find(each)
        return found


def _follow(value: Any, parts: Path) -> Iterator[Any]:
    """The values at the end of a path through objects and lists."""
    if isinstance(value, list):
        for item in value:
            yield from _follow(item, parts)
    elif not parts:
        if not isinstance(value, dict):
            yield value
    elif isinstance(value, dict):
        for name, below in value.items():
            if name.lower() == parts[0]:
                yield from _follow(below, parts[1:])


class DeclaredColumns:
    """The declared columns of all needles."""

    def __init__(
        self,
        needles: Sequence[Needle],
        skipped: frozenset[int],
        by_bytes: frozenset[int],
        aliases: Iterable[Alias] = (),
    ) -> None:
        by_column: defaultdict[Column, dict[int, Needle]] = defaultdict(dict)
        for number, needle in enumerate(needles):
            if number not in skipped:
                for column in needle.columns:
                    by_column[column][number] = needle
        known = tuple(aliases)
        self._values = {
            column: Values(_lower(column.parts), numbers, by_bytes)
            for original, numbers in by_column.items()
            for column in (original, *_renamed(original, known))
        }
        self._cache: dict[frozenset[Column], FileColumns] = {}

    def of_file(self, place: str, path: str) -> FileColumns:
        """The columns that count in a file."""
        counted = frozenset(column for column in self._values if _counts(column, place, path))
        if counted not in self._cache:
            self._cache[counted] = FileColumns(tuple(self._values[column] for column in counted))
        return self._cache[counted]


@dataclass(frozen=True, slots=True)
class Alias:
    """A column of a Delta table whose files call it by another name."""

    place: str
    folder: str
    parts: tuple[str, ...]
    stored: tuple[str, ...]


def _renamed(column: Column, aliases: Iterable[Alias]) -> Iterator[Column]:
    for alias in aliases:
        count = len(column.parts)
        if _lower(alias.parts[-count:]) == _lower(column.parts) and _overlaps(column, alias):
            deeper = max((column.folder, alias.folder), key=len)
            yield Column(alias.stored[-count:], alias.place, deeper)


def _overlaps(column: Column, alias: Alias) -> bool:
    return column.place in {None, alias.place} and (
        _is_below(alias.folder, column.folder) or _is_below(column.folder, alias.folder)
    )


def _counts(column: Column, place: str, path: str) -> bool:
    return column.place in {None, place} and _is_below(path, column.folder)


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _is_long(value: object) -> bool:
    content = value.encode(errors="surrogatepass") if isinstance(value, str) else value
    return isinstance(content, bytes) and len(content) >= SHORTEST


def _lower(parts: Sequence[str]) -> Path:
    return tuple(part.lower() for part in parts)
