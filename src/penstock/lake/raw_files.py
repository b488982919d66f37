"""Raw batches: which files belong to which staging table, and what their Parquet footers say. No JVM.

A listing is all that a no-op needs. pyarrow is imported only when there are new footers to read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import RawFileError, StorageError, first_line
from penstock.lake.files import Files, LocalFiles
from penstock.model.names import is_name_part
from penstock.model.progress import RawFile
from penstock.model.schema import Column, Schema

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIX = ".parquet"


@dataclass(frozen=True, slots=True)
class RawListing:
    """The raw folder as it is now: files per table, and names that cannot be a table."""

    tables: Mapping[str, tuple[RawFile, ...]]
    bad_names: tuple[str, ...] = ()
    colliding: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tables with the spellings of their name in raw, where there are several: nobody can tell if they are one table."""
    ignored: tuple[str, ...] = ()
    """Parquet files that do not fit the layout."""


@dataclass(frozen=True, slots=True)
class Footer:
    """What the footer of one Parquet file says."""

    schema: Schema
    rows: int


@dataclass(slots=True)
class _Collected:
    tables: dict[str, list[RawFile]] = field(default_factory=dict)
    spellings: dict[str, set[str]] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def list_raw(files: Files, layout: str) -> RawListing:
    """List the raw folder by its layout; hidden files (a leading dot or underscore) and other formats are left out."""
    collected = _Collected()
    by_folder = layout.startswith("{table}/")
    if by_folder:
        for folder in files.folders(""):
            if not folder.startswith((".", "_")):
                collected.tables.setdefault(folder.lower(), [])
                collected.spellings.setdefault(folder.lower(), set()).add(folder)
    for file in files.walk(""):
        _place(file, by_folder, collected)
    bad = {name for name in collected.tables if not is_name_part(name)}
    twice = {name for name, spellings in collected.spellings.items() if len(spellings) > 1} - bad
    return RawListing(
        {name: tuple(found) for name, found in sorted(collected.tables.items()) if name not in bad | twice},
        tuple(sorted(spelling for name in bad for spelling in collected.spellings[name])),
        {name: tuple(sorted(collected.spellings[name])) for name in sorted(twice)},
        tuple(collected.ignored),
    )


def _place(file: RawFile, by_folder: bool, collected: _Collected) -> None:
    parts = file.path.split("/")
    if not file.path.endswith(_SUFFIX) or any(part.startswith((".", "_")) for part in parts):
        return
    if len(parts) != 2:
        collected.ignored.append(file.path)
        return
    table = parts[0] if by_folder else parts[1].removesuffix(_SUFFIX)
    collected.tables.setdefault(table.lower(), []).append(file)
    collected.spellings.setdefault(table.lower(), set()).add(table)


def hash_content(files: Files, path: str) -> str:
    """A hash of the whole file, to tell a rewritten file from a merely touched one."""
    digest = hashlib.blake2b(digest_size=16)
    with files.open(path) as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def read_footers(files: Files, paths: Sequence[str]) -> dict[str, Footer]:
    """Read the footers of these files; RawFileError names the first file that is no readable Parquet file."""
    with ThreadPoolExecutor(max_workers=min(8, len(paths) or 1)) as pool:
        return dict(zip(paths, pool.map(lambda path: _read_footer(files, path), paths), strict=True))


def _read_footer(files: Files, path: str) -> Footer:
    import pyarrow as pa
    import pyarrow.parquet as pq

    _check_path(files, path)
    try:
        with files.open(path) as stream:
            metadata = pq.ParquetFile(stream).metadata
        physical = (metadata.schema.column(leaf).physical_type for leaf in range(metadata.num_columns))
        arrow = metadata.schema.to_arrow_schema()
        schema = to_schema(pa.schema([column.with_type(_read_int96(column.type, physical)) for column in arrow]), path)
    except StorageError as error:
        raise RawFileError(f"raw file {path} cannot be read: {error.message}", hint=error.hint) from None
    except FileNotFoundError:
        raise RawFileError(f"raw file {path} vanished while it was read", hint="run again") from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise RawFileError(
            f"raw file {path} is not a readable Parquet file ({first_line(error)})",
            hint="replace the file or move it out of the raw folder, then run again",
        ) from None
    return Footer(schema, int(metadata.num_rows))


def _check_path(files: Files, path: str) -> None:
    if ":" in path and isinstance(files, LocalFiles):
        raise RawFileError(
            f"raw file {path}: Spark cannot read a local file with a colon in its name", hint="rename the file"
        )


def _read_int96(arrow: Any, physical: Iterator[str]) -> Any:
    """The type with every INT96 timestamp as Spark means it: an instant in microseconds, though Arrow says nanoseconds.

    Spark, Hive and Impala write timestamps so by default; `physical` has the Parquet types of the leaves, in order.
    """
    import pyarrow as pa

    if pa.types.is_struct(arrow):
        return pa.struct([child.with_type(_read_int96(child.type, physical)) for child in arrow.fields])
    if pa.types.is_map(arrow):
        return pa.map_(_read_int96(arrow.key_type, physical), _read_int96(arrow.item_type, physical))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return pa.list_(_read_int96(arrow.value_type, physical))
    return pa.timestamp("us", tz="UTC") if next(physical) == "INT96" else arrow


def to_schema(schema: pa.Schema, path: str) -> Schema:
    """Spark's view of an Arrow schema; RawFileError for what a table cannot hold."""
    _check_names(schema.names, path)
    columns = []
    for column in schema:
        try:
            columns.append(Column(column.name, to_spark_type(column.type), column.nullable))
        except ValueError as error:
            raise RawFileError(
                f"raw file {path}: column {column.name!r} has type {column.type}, which {error}",
                hint="write the column with a supported type",
            ) from None
    return Schema(tuple(columns))


def _check_names(names: Iterable[str], path: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise RawFileError(
                f"raw file {path}: columns {seen[name.lower()]!r} and {name!r} differ only by case",
                hint="rename one of them at the source",
            )
        seen[name.lower()] = name


_SIMPLE = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "binary": "binary",
    "large_binary": "binary",
    "date32[day]": "date",
}


def to_spark_type(arrow: Any) -> str:
    """Spark's simple type name for an Arrow type; ValueError says why there is none."""
    import pyarrow as pa

    if str(arrow) in _SIMPLE:
        return _SIMPLE[str(arrow)]
    if pa.types.is_decimal(arrow) and arrow.precision <= 38:
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_fixed_size_binary(arrow):
        return "binary"
    if pa.types.is_timestamp(arrow):
        if arrow.unit == "ns":
            raise ValueError("has nanoseconds that Spark would cut to microseconds")
        return "timestamp" if arrow.tz else "timestamp_ntz"
    if pa.types.is_dictionary(arrow):
        return to_spark_type(arrow.value_type)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return f"array<{to_spark_type(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{to_spark_type(arrow.key_type)},{to_spark_type(arrow.item_type)}>"
    if pa.types.is_struct(arrow):
        inner = (f"`{child.name.replace('`', '``')}`:{to_spark_type(child.type)}" for child in arrow.fields)
        return f"struct<{','.join(inner)}>"
    raise ValueError("Spark tables cannot hold")
