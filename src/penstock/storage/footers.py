"""What the footers of raw Parquet files say: columns, types, rows, and what statistics prove. No JVM, no data is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, TypeAlias

from penstock.errors import RawFileError, first_line
from penstock.model.schema import EXACT_IN_DOUBLE, FARTHEST_DAY, NANOSECONDS, FileColumn, Footer
from penstock.model.types import Array, Map, SparkType, Struct, to_text
from penstock.storage.column_chunks import (
    Chunk,
    EncryptedError,
    Leaf,
    check_chunks,
    find_unread,
    has_whole_statistics,
    read_chunks,
    read_leaves,
)
from penstock.storage.decimal_columns import check_digits, find_roomy_decimals
from penstock.storage.file_names import check_names, check_path
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles
from penstock.storage.raw_files import problems_named
from penstock.storage.thrift import ThriftError


def read_footers(files: Files, paths: Sequence[str], count_nulls: AbstractSet[str] = frozenset()) -> dict[str, Footer]:
    """Read the footers of these files; RawFileError names the first file that is not a readable Parquet file.

    `count_nulls` names, in lower case, the columns of which the number of NULLs is wanted.
    """
    kinds: _Kinds = {}
    if isinstance(files, LocalFiles):  # no network to wait for: threads would only compete for the interpreter
        return {path: _read_footer(files, path, count_nulls, kinds) for path in paths}
    with ThreadPoolExecutor(max_workers=min(8, len(paths) or 1)) as pool:
        footers = pool.map(lambda path: _read_footer(files, path, count_nulls, kinds), paths)
        return dict(zip(paths, footers, strict=True))


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A top-level column, with the place of its (first) leaf among those of the file."""

    column: FileColumn
    place: int


@dataclass(frozen=True, slots=True)
class _Kind:
    """What files with equal columns share."""

    chunks: tuple[Leaf, ...]
    """What the chunks of each row group must be."""
    columns: tuple[_Leaf, ...]
    roomy: tuple[int, ...]
    """The places of decimals of which each file must prove that Spark reads them rightly."""


@dataclass(frozen=True, slots=True)
class _File:
    """A footer: as pyarrow shows it, and what it must not be asked about before it is checked."""

    metadata: Any
    chunks: Sequence[Sequence[Chunk]]
    """By row group."""


_Kinds: TypeAlias = "dict[tuple[str, bytes], _Kind]"
"""Each kind of file that was seen."""


def _read_footer(files: Files, path: str, count_nulls: AbstractSet[str], kinds: _Kinds) -> Footer:
    with _named_reading(path):
        file, kind = _read_checked(files, path, kinds)
        columns = tuple(_add_facts(leaf, file, kind, count_nulls) for leaf in kind.columns)
        return Footer(columns, int(file.metadata.num_rows))


def _read_checked(files: Files, path: str, kinds: _Kinds) -> tuple[_File, _Kind]:
    """The footer of a file, when Spark can read the file, and pyarrow all of the footer."""
    import pyarrow.parquet as pq

    check_path(files, path)
    with files.open(path) as stream:
        metadata = pq.read_metadata(stream)
        if metadata.num_columns == 0:
            raise RawFileError(f"raw file {path} has no columns", hint="write it with columns, or move it out of raw")
        file = _File(metadata, _read_chunks(stream, path))
        _check_count(metadata, path)
    key = _find_kind(metadata)
    if key not in kinds:  # most files of a table have equal columns: each kind is parsed once
        kinds[key] = _understand(metadata, path)
    kind = kinds[key]
    _check_readable(file, kind.chunks, path)
    for place in kind.roomy:
        check_digits(metadata.schema.column(place), _statistics(file, kind, place), path)
    return file, kind


def _check_count(metadata: Any, path: str) -> None:
    """RawFileError when the footer counts other rows than its row groups have: Spark reads these."""
    found = sum(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    if found != metadata.num_rows:
        raise RawFileError(
            f"raw file {path} is damaged: its footer counts {metadata.num_rows} rows, and its row groups have {found}",
            hint="write it again, or move it out of raw",
        )


def _understand(metadata: Any, path: str) -> _Kind:
    leaves = [metadata.schema.column(leaf) for leaf in range(metadata.num_columns)]
    _check_meanings(leaves, path)
    roomy = tuple(find_roomy_decimals(leaves, path))
    columns = tuple(_find_columns(metadata, [leaf.physical_type for leaf in leaves], path))
    return _Kind(read_leaves(metadata.schema), columns, roomy)


def _read_chunks(stream: BinaryIO, path: str) -> list[list[Chunk]]:
    try:
        return read_chunks(stream)
    except ThriftError as error:
        raise _damaged(path, error) from None


def _check_readable(file: _File, leaves: Sequence[Leaf], path: str) -> None:
    """RawFileError when a column is encrypted or damaged, or when Spark has no reader for its compression or encoding."""
    try:
        check_chunks(file.chunks, leaves)
    except EncryptedError as error:
        raise RawFileError(
            f"raw file {path}: column {str(error)!r} is encrypted", hint="write the file without encryption"
        ) from None
    except ThriftError as error:
        raise _damaged(path, error) from None
    for chunk, leaf in zip(file.chunks[0], leaves, strict=True) if file.chunks else ():  # writers do all groups alike
        unread = find_unread(chunk)
        if unread is not None:
            used, what = unread
            raise RawFileError(
                f"raw file {path}: column {leaf.path!r} has the {what} {used}, which Spark cannot read",
                hint=_REWRITE[used],
            )


def _damaged(path: str, error: ThriftError) -> RawFileError:
    return RawFileError(
        f"raw file {path} is not a readable Parquet file (its footer is damaged: {error})",
        hint="replace the file or move it out of the raw folder, then run again",
    )


_REWRITE = {
    "BROTLI": "write the file with zstd, snappy or gzip",
    "LZO": "write the file with zstd, snappy or gzip",
    "BYTE_STREAM_SPLIT": "write the file with plain or dictionary encoding; in DuckDB with (PARQUET_VERSION v1)",
}


def _find_kind(metadata: Any) -> tuple[str, bytes]:
    """What decides the columns of a file: its Parquet schema as text, and the Arrow types that its writer used."""
    _, _, text = str(metadata.schema).partition("\n")  # the first line has the address of the object
    return text, (metadata.metadata or {}).get(b"ARROW:schema", b"")


def _add_facts(leaf: _Leaf, file: _File, kind: _Kind, count_nulls: AbstractSet[str]) -> FileColumn:
    column = leaf.column
    if column.type in _LIMITS:
        column = replace(column, is_large=_is_large(_statistics(file, kind, leaf.place), _LIMITS[column.type]))
    elif "<" in column.type and "date" in column.type:  # the leaves of a nested column are not looked at
        column = replace(column, is_large=True)
    if column.name.lower() in count_nulls:
        column = replace(column, nulls=_count_nulls(_statistics(file, kind, leaf.place), column.type))
    return column


def _named_reading(path: str) -> AbstractContextManager[None]:
    return problems_named(path, lambda error: f"is not a readable Parquet file ({first_line(error)})")


def read_range(files: Files, path: str, name: str) -> tuple[Any, Any] | None:
    """The smallest and the largest value of a column by the footer's statistics; None when it does not say.

    For comparison only: values are neither stored nor shown.
    """
    with _named_reading(path):
        file, kind = _read_checked(files, path, {})
        places = (leaf.place for leaf in kind.columns if leaf.column.name.lower() == name.lower())
        groups = [group for place in places for group in _statistics(file, kind, place)]
        known = [group for group in groups if group is not None and group.has_min_max]
        return (min(group.min for group in known), max(group.max for group in known)) if known else None


def _statistics(file: _File, kind: _Kind, place: int) -> Iterator[Any]:
    """The statistics of a column by row group; None where there are none, or none that pyarrow can read."""
    for number, chunks in enumerate(file.chunks):
        group = file.metadata.row_group(number)
        if group.num_rows:
            is_whole = has_whole_statistics(chunks[place], kind.chunks[place])
            column = group.column(place) if is_whole else None
            yield column.statistics if column is not None and column.is_stats_set else None


_LIMITS = {"bigint": EXACT_IN_DOUBLE, "date": FARTHEST_DAY}
"""Up to which number, or day since 1970, a wider type of another kind holds the values of a type exactly."""


def _is_large(statistics: Iterable[Any], limit: int) -> bool:
    """Whether some value may be beyond the limit: only statistics can rule it out."""
    for group in statistics:
        if group is None or not group.has_min_max:
            if group is None or group.num_values:
                return True
        elif group.max_raw > limit or group.min_raw < -limit:
            return True
    return False


def _count_nulls(statistics: Iterable[Any], type_: str) -> int | None:
    """How many values of a column are NULL; None when the footer does not say, or for the leaves of a nested one."""
    groups = list(statistics)
    if "<" in type_ or any(group is None or not group.has_null_count for group in groups):
        return None
    return sum(int(group.null_count) for group in groups)


def _find_columns(metadata: Any, physical: Sequence[str], path: str) -> Iterator[_Leaf]:
    """The columns of a file; `physical` has the Parquet types of its leaves."""
    import pyarrow as pa

    has_variants = "(Variant(" in str(metadata.schema)
    arrow = metadata.schema.to_arrow_schema()
    check_names(arrow.names, path)
    place = 0
    for column in arrow:
        leaves = iter(physical[place:])
        type_ = _read_int96(column.type, leaves)
        check_fields(column.name, type_, path, has_variants=has_variants)
        if not pa.types.is_null(column.type):  # only NULLs: the column has no type yet
            yield _Leaf(FileColumn(column.name, _to_column_type(column.name, type_, path), column.nullable), place)
        place = len(physical) - len(list(leaves))


def _check_meanings(leaves: Iterable[Any], path: str) -> None:
    """RawFileError for bytes that are more than bytes: Spark would give them without their meaning."""
    for leaf in leaves:
        if leaf.logical_type.type in {"UUID", "INTERVAL"} or leaf.converted_type == "INTERVAL":
            meaning = "UUID" if leaf.logical_type.type == "UUID" else "INTERVAL"
            raise RawFileError(
                f"raw file {path}: column {leaf.path!r} has type {meaning}, which Spark tables cannot hold",
                hint="write the column as text",
            )


def check_fields(name: str, arrow: Any, path: str, *, has_variants: bool = False) -> None:
    """RawFileError when a struct at any depth of a column has two fields of one name, or is the form of a variant."""
    import pyarrow as pa

    if pa.types.is_struct(arrow):
        names = [child.name for child in arrow.fields]
        if has_variants and {"metadata", "value"} <= set(names):
            raise RawFileError(
                f"raw file {path}: column {name!r} has type VARIANT, which staging tables cannot hold",
                hint="write the column as JSON text",
            )
        check_names(names, path, within=name)
    if pa.types.is_nested(arrow):
        for place in range(arrow.num_fields):
            check_fields(name, arrow.field(place).type, path, has_variants=has_variants)


def _read_int96(arrow: Any, physical: Iterator[str]) -> Any:
    """The type with every INT96 timestamp as Spark reads it: an instant in microseconds, where Arrow has nanoseconds.

    Spark, Hive and Impala write timestamps so by default; `physical` has the Parquet types of the leaves, in order.
    """
    import pyarrow as pa

    if pa.types.is_struct(arrow):
        return pa.struct([child.with_type(_read_int96(child.type, physical)) for child in arrow.fields])
    if pa.types.is_map(arrow):
        return pa.map_(_read_int96(arrow.key_type, physical), _read_int96(arrow.item_type, physical))
    if _is_list(arrow):
        return pa.list_(_read_int96(arrow.value_type, physical))
    return pa.timestamp("us", tz="UTC") if next(physical) == "INT96" else arrow


def _is_list(arrow: Any) -> bool:
    from pyarrow import types

    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    return any(is_kind(arrow) for is_kind in kinds)


def _to_column_type(name: str, arrow: Any, path: str) -> str:
    try:
        return to_spark_type(arrow, at_top=True)
    except ValueError as error:
        raise RawFileError(
            f"raw file {path}: column {name!r} has type {arrow}, which {error}",
            hint="write the column with a supported type",
        ) from None


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
    "string_view": "string",
    "binary": "binary",
    "large_binary": "binary",
    "binary_view": "binary",
    "date32[day]": "date",
}


def to_spark_type(arrow: Any, *, at_top: bool = False) -> str:
    """Spark's simple type name for an Arrow type; ValueError says why there is none.

    A column with nanoseconds is `timestamp_ns` or `timestamp_ntz_ns`: the load checks that no value needs nanoseconds.
    """
    import pyarrow as pa

    if at_top and pa.types.is_timestamp(arrow) and arrow.unit == "ns":
        return ("timestamp" if arrow.tz else "timestamp_ntz") + NANOSECONDS
    return to_text(_to_tree(arrow))


def _to_tree(arrow: Any) -> SparkType:
    import pyarrow as pa

    if str(arrow) in _SIMPLE:
        return _SIMPLE[str(arrow)]
    if pa.types.is_decimal(arrow) and arrow.precision <= 38:
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_fixed_size_binary(arrow):
        return "binary"
    if pa.types.is_timestamp(arrow):
        if arrow.unit == "ns":
            raise ValueError("has nanoseconds, which Spark would truncate to microseconds")
        return "timestamp" if arrow.tz else "timestamp_ntz"
    if pa.types.is_dictionary(arrow):
        return _to_tree(arrow.value_type)
    if isinstance(arrow, pa.BaseExtensionType) and arrow.extension_name == "arrow.json":
        return _to_tree(arrow.storage_type)
    if _is_list(arrow):
        return Array(_to_tree(arrow.value_type))
    if pa.types.is_map(arrow):
        return Map(_to_tree(arrow.key_type), _to_tree(arrow.item_type))
    if pa.types.is_struct(arrow):
        return Struct(tuple((child.name, _to_tree(child.type)) for child in arrow.fields))
    raise ValueError("Spark tables cannot hold")
