"""Schemas as values: what the footer of one raw file says, what all counted footers said together, and a table's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.model.fingerprint import fingerprint

NANOSECONDS = "_ns"
"""The suffix of the type of a file's timestamp column with nanoseconds, which no table column can have."""
EXACT_IN_DOUBLE = 2**53
"""A double holds every whole number up to this one exactly."""
FARTHEST_DAY = 106_751_991
"""A timestamp, in microseconds, can be this many days before or after 1970 at most."""


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of one raw file; `type` is Spark's simple name, or a timestamp type with the suffix `_ns`."""

    name: str
    type: str
    nullable: bool = True
    nulls: int | None = None
    """How many values are NULL; None when the footer does not say."""
    is_large: bool = False
    """Some of the whole numbers may be too large for a double to hold exactly, or some of the dates too far for a timestamp."""
    misfit_line: int | None = None
    """In a text file: the line of the first value that is not one of the declared type."""


@dataclass(frozen=True)
class Footer:
    """What the footer of one Parquet file says, or what was found by reading a text file."""

    columns: tuple[FileColumn, ...]
    rows: int
    bad_rows: int = 0
    """Records of a text file that cannot be read; they are among the rows."""
    digest: str | None = None
    """A hash of the text of a text file."""

    @cached_property
    def by_name(self) -> Mapping[str, FileColumn]:
        """The columns by their names in lower case."""
        return index_columns(self.columns)


def index_columns(columns: Iterable[FileColumn]) -> Mapping[str, FileColumn]:
    """The columns of a file by their names in lower case: names that differ only by case are one column."""
    return {column.name.lower(): column for column in columns}


def find_column(by_name: Mapping[str, FileColumn], sources: AbstractSet[str]) -> FileColumn | None:
    """The column of a file that a table's column takes its values from.

    The plan rejects a file with several of them; they are still sorted, so that plan and load always choose the same one.
    """
    return next((by_name[name] for name in sorted(sources) if name in by_name), None)


@dataclass(frozen=True, slots=True)
class SeenColumn:
    """What the footers of all counted files said about the column of one name, whatever their order."""

    name: str
    types: frozenset[str]
    nullable: bool = True
    is_large: bool = False

    @property
    def key(self) -> str:
        """Names that differ only by case are one column."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `type` is Spark's simple name, such as `bigint` or `struct<a:int>`."""

    name: str
    type: str
    nullable: bool = True
    sources: frozenset[str] = frozenset()
    """The names, in lower case, that this column has in raw files: more than one when a rename is declared."""

    @property
    def key(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table, in order."""

    columns: tuple[Column, ...]

    @property
    def fingerprint(self) -> str:
        """A short hash of names (without case) and types, independent of order and nullability."""
        return fingerprint(sorted((column.key, column.type) for column in self.columns), size=12)

    def to_json(self) -> list[dict[str, object]]:
        return [
            {
                "name": c.name,
                "type": c.type,
                "nullable": c.nullable,
                **({"sources": sorted(c.sources)} if c.sources else {}),
            }
            for c in self.columns
        ]

    @staticmethod
    def from_json(value: Iterable[dict[str, Any]]) -> Schema:
        return Schema(tuple(_column_from_json(c) for c in value))


def _column_from_json(value: dict[str, Any]) -> Column:
    name = str(value["name"])
    sources = frozenset(map(str, value.get("sources", ())))
    return Column(name, str(value["type"]), bool(value["nullable"]), sources)


def seen_to_json(seen: Iterable[SeenColumn]) -> list[dict[str, object]]:
    """What footers said, as a progress manifest stores it."""
    return [{"name": c.name, "types": sorted(c.types), "nullable": c.nullable, "large": c.is_large} for c in seen]


def seen_from_json(value: Iterable[dict[str, Any]]) -> tuple[SeenColumn, ...]:
    """Read what `seen_to_json` wrote."""
    return tuple(
        SeenColumn(str(c["name"]), frozenset(map(str, c["types"])), bool(c["nullable"]), bool(c["large"]))
        for c in value
    )
