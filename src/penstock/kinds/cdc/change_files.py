"""Change files as one frame: every file is read with its own columns, and columns are matched by name.

Spark uses the columns of one file for all files that it reads together. So files with equal columns are read together,
and these groups are combined here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from penstock.errors import FeedError, PenstockError, first_line
from penstock.model.common_type import common_type, widens_in_place
from penstock.model.types import comparable_type, normal_type, quote_name
from penstock.storage.addresses import to_glob_literal, to_spark_uri
from penstock.storage.files import open_files
from penstock.transforms.conform import conform_field
from penstock.transforms.feeds import CORRUPT
from penstock.transforms.json_columns import adopt_types, find_untyped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.model.changes import FeedFiles
    from penstock.model.progress import RawFile

_READERS = 16
_CHECK_SCHEMA = "give change_files a schema= that fits all files, or fix the files"


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """The rows of change files."""

    frame: DataFrame
    untyped: frozenset[str] = frozenset()
    """Columns, in lower case, that are NULL in all rows, so that their type is unknown: they are added later."""


@dataclass(frozen=True, slots=True)
class ChangeFiles:
    """Reads the change files of feeds."""

    session: SparkSession
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Addresses and credentials of object stores."""

    def read(self, flow: str, feed: FeedFiles, files: Sequence[RawFile], known: T.StructType | None) -> Read:
        """The rows of these files; `known` are the columns of the target, whose types are used for JSON numbers and NULLs."""
        with _problems_named(flow):
            if feed.format == "json":
                return self._read_json(feed, files, known)
            groups = self._group(flow, feed, files)
            frames = [self._read_group(feed, group) for group in groups]
            return Read(frames[0] if len(frames) == 1 else _bring_together(flow, frames))

    def _load(self, feed: FeedFiles, files: Sequence[RawFile], schema: T.StructType | None, **more: str) -> DataFrame:
        options = {"header": "true"} if feed.format == "csv" else {}
        reader = self.session.read.format(feed.format).options(**{**options, **more, **dict(feed.options)})
        reader = reader.schema(schema) if schema is not None else reader
        return reader.load([to_spark_uri(to_glob_literal(file.path)) for file in files])

    def _read_json(self, feed: FeedFiles, files: Sequence[RawFile], known: T.StructType | None) -> Read:
        if feed.schema:
            return Read(self._load(feed, files, self._parse(feed.schema), mode="FAILFAST"))
        found, typed = (self._load(feed, files, None, dropFieldIfAllNull=drop).schema for drop in ("false", "true"))
        schema = adopt_types(feed.envelope, found, typed, known)
        mode = "PERMISSIVE" if CORRUPT in found.names else "FAILFAST"
        untyped = find_untyped(feed.envelope, found, typed, known)
        return Read(self._load(feed, files, schema, mode=mode), untyped)

    def _parse(self, schema: str) -> T.StructType:
        return self.session.createDataFrame([], schema).schema

    def _group(self, flow: str, feed: FeedFiles, files: Sequence[RawFile]) -> list[list[RawFile]]:
        """Files with the same columns together."""
        if feed.format == "csv" and _has_header(feed):
            look: Callable[[str], object] = self._opener(feed, _read_first_line)
        elif feed.format == "parquet" and not feed.schema:
            look = self._opener(feed, _read_columns)
        else:
            return [list(files)]

        def columns_of(file: RawFile) -> object:
            try:
                return look(file.path)
            except (OSError, ValueError):  # Arrow's errors are among them
                raise FeedError(
                    f"the change file {file.path} of the flow {flow} cannot be read; nothing was written",
                    hint=f"fix or remove the file, or check the flow's format=, which is {feed.format}",
                ) from None

        with ThreadPoolExecutor(_READERS) as pool:
            found = list(pool.map(columns_of, files))
        groups: dict[object, list[RawFile]] = {}
        for columns, file in zip(found, files, strict=True):
            groups.setdefault(columns, []).append(file)
        return list(groups.values())

    def _opener(self, feed: FeedFiles, look: Callable[..., object]) -> Callable[[str], object]:
        folder = feed.path.rstrip("/")
        opened = open_files(folder, self.configuration)

        def find(path: str) -> object:
            with opened.open(path.removeprefix(f"{folder}/")) as content:
                return look(content)

        return find

    def _read_group(self, feed: FeedFiles, files: Sequence[RawFile]) -> DataFrame:
        if not feed.schema:
            return self._load(feed, files, None)
        declared = self._parse(feed.schema)
        if feed.format == "parquet":
            return self._load(feed, files, declared)
        if not _has_header(feed):
            return self._load(feed, files, declared, mode="FAILFAST")
        fields = {field.name.lower(): field for field in declared}
        found = self._load(feed, files, None).columns
        by_header = [fields.get(name.lower(), T.StructField(name, T.StringType())) for name in found]
        rows = self._load(feed, files, T.StructType(by_header), mode="FAILFAST")
        return rows.select(*(quote_name(field.name) for field in by_header if field.name.lower() in fields))


def _has_header(feed: FeedFiles) -> bool:
    return str(dict(feed.options).get("header", "true")).lower() == "true"


def _read_first_line(content: object) -> bytes:
    return bytes(content.readline())  # type: ignore[attr-defined]


def _read_columns(content: object) -> str:
    import pyarrow.parquet as pq

    return str(pq.read_schema(content).remove_metadata())


def _bring_together(flow: str, frames: Sequence[DataFrame]) -> DataFrame:
    """All rows, columns by name; each in the least type that holds the values of all, where that is safe."""
    types: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for frame in frames:
        for column in frame.schema:
            names.setdefault(column.name.lower(), column.name)
            types.setdefault(column.name.lower(), []).append(normal_type(column.dataType.simpleString()))
    common = {key: _common(flow, names[key], found) for key, found in types.items()}
    return reduce(lambda one, other: one.unionByName(other), (_conform(frame, names, common) for frame in frames))


def _common(flow: str, name: str, types: Sequence[str]) -> str:
    found = {comparable_type(type_): type_ for type_ in types}
    common = common_type(found.values())
    if len(found) > 1 and not all(widens_in_place(type_, common) for type_ in found.values()):
        raise FeedError(
            f"the change files of {flow} have the column {name} as {' and as '.join(sorted(found.values()))}",
            hint=_CHECK_SCHEMA,
        )
    return common


def _conform(frame: DataFrame, names: Mapping[str, str], types: Mapping[str, str]) -> DataFrame:
    return frame.select(*(conform_field(frame.schema.fields, name, types[key]) for key, name in names.items()))


@contextmanager
def _problems_named(flow: str) -> Iterator[None]:
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:  # noqa: BLE001 - readers fail in many ways
        raise FeedError(
            f"the change files of {flow} cannot be read: {first_line(error)}", hint="check format and schema"
        ) from None
