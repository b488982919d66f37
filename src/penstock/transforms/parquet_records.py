"""Records of Parquet files with their places in the file, and the rows that each contains, in their own types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.model.schema import FileColumn, find_column, index_columns
from penstock.model.types import Struct, parse_type, quote_name, to_text
from penstock.transforms.conform import by_name, read_type
from penstock.transforms.key_match import FILE, ROW, Image, RecordKey, all_null, typed_images
from penstock.transforms.raw_records import MESSAGE_KEYS, file_address, is_truncate, operation_name, top_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def wanted_columns(columns: Sequence[FileColumn], key: RecordKey) -> tuple[FileColumn, ...]:
    """The columns of a file that can have a row, or parts of the key."""
    names = top_names(key)
    return tuple(column for column in columns if column.name.lower() in names)


def to_schema(columns: Sequence[FileColumn]) -> str:
    """These columns as a Spark schema, to read them with."""
    return ", ".join(f"{quote_name(column.name)} {read_type(column)}" for column in columns)


def with_places(rows: DataFrame) -> DataFrame:
    """The rows with FILE, their file's address without its scheme, and ROW, their place in it from 0 on."""
    return rows.withColumns({FILE: file_address(rows), ROW: rows.metadataColumn("_metadata")["row_index"]})


def images_of(columns: Sequence[FileColumn], key: RecordKey) -> list[Image]:
    """The rows in each record of files with these columns. A truncate has none: it must stay."""
    if key.envelope is None:
        known = index_columns(columns)
        found = [find_column(known, names) for names in key.names]
        values = [(by_name(c.name), c.type) if c is not None else _nothing() for c in found]
        there = ~all_null([value for value, _ in values]) if key.is_source else None
        return typed_images(values, key.types, there)
    stays = F.lit(False)
    images: list[Image] = []
    sources: list[Mapping[str, tuple[Column, str]]] = [
        {column.name.lower(): (by_name(column.name), column.type) for column in columns}
    ]
    if key.envelope == "debezium" and "payload" in sources[0]:
        sources.append(_fields(*sources[0]["payload"]))
    name = operation_name(key.envelope)
    for source in sources:
        stays = stays | is_truncate(source[name][0], key.envelope) if name in source else stays
    for source in sources:
        for place in ("data",) if key.envelope == "events" else ("before", "after", *MESSAGE_KEYS):
            if place in source:
                images += _images_at(place, *source[place], key, stays)
    return images


def _images_at(place: str, value: Column, type_: str, key: RecordKey, stays: Column) -> list[Image]:
    """The row in a struct; or a message key that is the one part of the key."""
    fields = _fields(value, type_)
    if fields:
        found = [next((fields[name] for name in sorted(names) if name in fields), None) for names in key.names]
        if key.envelope == "debezium" and None in found:
            return []
        values = [part if part is not None else _nothing() for part in found]
        there = value.isNotNull() & ~all_null([part for part, _ in values])
        return typed_images(values, key.types, there & ~stays)
    if place in MESSAGE_KEYS and len(key.names) == 1 and key.message_key in key.names[0]:
        return typed_images([(value, type_)], key.types, value.isNotNull() & ~stays)
    return []


def _fields(value: Column, type_: str) -> Mapping[str, tuple[Column, str]]:
    """The fields of a struct by their names in lower case, with their types; none when it is not a struct."""
    tree = parse_type(type_) if "<" in type_ else type_
    if not isinstance(tree, Struct):
        return {}
    return {name.lower(): (value.getField(name), to_text(inner)) for name, inner in tree.fields}


def _nothing() -> tuple[Column, str]:
    return F.lit(None).cast("string"), "string"
