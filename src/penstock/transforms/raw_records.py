"""Records of JSON and CSV files with the parts of a key as they are written there, for every row that a record contains.

JSON is read as text and parsed into maps: so a field is found in any case, whatever the columns of other records are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.model.types import quote_name
from penstock.transforms.key_match import FILE, ROW, Image, RecordKey, all_null, text_images

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MESSAGE_KEYS = ("key", "_key", "__key", "message_key")
"""The fields in which change files have the key of a Kafka message."""
CORRUPT = "__penstock_corrupt"
"""Whether a record cannot be read."""
_RECORD, _STAYS, _TEXT = "__penstock_record", "__penstock_stays", "value"
_MAP = "map<string,string>"


def top_names(key: RecordKey) -> frozenset[str]:
    """The columns of a record that can have a row, or say what it means; in lower case."""
    if key.envelope is None:
        return frozenset[str]().union(*key.names)
    if key.envelope == "events":
        return frozenset({"data", "operation"})
    return frozenset({"before", "after", "payload", "op", *MESSAGE_KEYS})


def is_truncate(word: Column, envelope: str) -> Column:
    """Whether an event is a truncate, by the word for its operation, as the load reads it; never NULL."""
    found = F.upper(word) == "TRUNCATE" if envelope == "events" else word == "t"
    return F.coalesce(found, F.lit(False))


def operation_name(envelope: str) -> str:
    """The field of an event that says what it means."""
    return "operation" if envelope == "events" else "op"


def file_address(rows: DataFrame) -> Column:
    """The address of each row's file as `storage.addresses.without_scheme` gives it."""
    path = F.url_decode(F.replace(rows.metadataColumn("_metadata")["file_path"], F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(path, "^([A-Za-z0-9+.-]+:)?/*", "")


def with_places(rows: DataFrame) -> DataFrame:
    """The records with FILE, their file's address without its scheme, and ROW, a number of their own."""
    return rows.withColumns({FILE: file_address(rows), ROW: F.monotonically_increasing_id()})


def without_file(rows: DataFrame) -> DataFrame:
    """Rows that are of no file."""
    return rows.withColumns({FILE: F.lit("")})


def text_schema(names: Sequence[str]) -> T.StructType:
    """Columns of these names, all as text."""
    return T.StructType([T.StructField(name, T.StringType()) for name in names])


def plain_images(columns: Sequence[str], key: RecordKey) -> list[Image]:
    """The key of rows whose columns are its parts, in order, as they are written in the files."""
    return text_images([F.col(name) for name in columns], key.types, key.format, key.options)


def csv_images(rows: DataFrame, key: RecordKey) -> list[Image]:
    """The key of each record of CSV files, read as text."""
    columns = {name.lower(): F.col(quote_name(name)) for name in rows.columns}
    raw = [_first([columns[name] for name in sorted(names) if name in columns]) for names in key.names]
    return text_images(raw, key.types, key.format, key.options, ~all_null(raw) if key.is_source else None)


def to_json_records(texts: DataFrame, encoding: str | None) -> DataFrame:
    """The JSON objects of texts, each an object or an array of them: FILE, ROW, the object as a map, and CORRUPT.

    Needs the rows of Spark's text reader, lines or whole files, and the encoding if it is not UTF-8.
    """
    value = F.decode(F.col(_TEXT).cast("binary"), encoding) if encoding else F.col(_TEXT)
    text = F.regexp_replace(value, "^\ufeff|^[ \t\r\n]+|[ \t\r\n]+$", "")
    given = texts.select(file_address(texts).alias(FILE), text.alias(_TEXT))
    is_array = F.col(_TEXT).startswith("[")
    many = F.from_json(F.when(is_array, F.col(_TEXT)), f"array<{_MAP}>")
    one = F.from_json(F.when(~is_array, F.col(_TEXT)), _MAP)
    items = F.when(is_array, many).otherwise(F.array(one))
    is_bad = F.when(is_array, many.isNull()).otherwise(one.isNull() & (F.col(_TEXT) != "null"))
    found = given.where(F.col(_TEXT) != "").select(FILE, is_bad.alias(CORRUPT), F.explode_outer(items).alias(_RECORD))
    return found.withColumns({ROW: F.monotonically_increasing_id()})


def with_json_images(records: DataFrame, key: RecordKey) -> tuple[DataFrame, list[Image]]:
    """The records with columns for what they contain, and the rows there. A truncate has none: it must stay."""
    record = F.col(_RECORD)
    if key.envelope is None:
        return records, _images_in(record, key, F.lit(False))
    inner = record
    if key.envelope == "debezium":
        is_wrapped = _has(record, "payload") & ~_has(record, "op")
        inner = F.when(is_wrapped, F.from_json(_get(record, "payload"), _MAP)).otherwise(record)
    opened = records.withColumns({f"{_RECORD}_in": inner})
    inner = F.col(f"{_RECORD}_in")
    stays = is_truncate(_get(inner, operation_name(key.envelope)), key.envelope)
    places = {name: _get(inner, name) for name in (("data",) if key.envelope == "events" else ("before", "after"))}
    if key.envelope == "debezium":
        places["key"] = F.coalesce(*(_get(source, name) for source in (inner, record) for name in MESSAGE_KEYS))
    opened = opened.withColumns({_STAYS: stays, **{f"{_RECORD}_{name}": text for name, text in places.items()}})
    maps = {f"{_RECORD}_{name}_map": F.from_json(F.col(f"{_RECORD}_{name}"), _MAP) for name in places}
    opened = opened.withColumns(maps)
    images: list[Image] = []
    for name in places:
        row, text = F.col(f"{_RECORD}_{name}_map"), F.col(f"{_RECORD}_{name}")
        if name == "key":
            images += _bare_images(text, key)
            only_schema = F.size(F.map_filter(row, lambda k, _: ~F.lower(k).isin("schema", "payload"))) == 0
            row = F.when(only_schema & _has(row, "payload"), F.from_json(_get(row, "payload"), _MAP)).otherwise(row)
        images += _images_in(row, key, F.col(_STAYS))
    return opened, images


def _images_in(row: Column, key: RecordKey, stays: Column) -> list[Image]:
    """The key of a row that is a map.

    Debezium's images have all their columns: one without the column, such as a message key, says nothing about it.
    """
    raw = [_first([_get(row, name) for name in sorted(names)]) for names in key.names]
    there = row.isNotNull() & ~stays
    if key.is_source:
        there = there & ~all_null(raw)
    if key.envelope == "debezium":
        for names in key.names:
            lowered = F.transform(F.map_keys(row), F.lower)
            there = there & F.arrays_overlap(lowered, F.array(*(F.lit(name) for name in sorted(names))))
    return text_images(raw, key.types, key.format, key.options, F.coalesce(there, F.lit(False)))


def _bare_images(text: Column, key: RecordKey) -> list[Image]:
    """A message key that is the one part of the key."""
    if len(key.names) != 1 or key.message_key not in key.names[0]:
        return []
    is_bare = text.isNotNull() & ~F.trim(text).startswith("{") & ~F.col(_STAYS)
    return text_images([text], key.types, key.format, key.options, F.coalesce(is_bare, F.lit(False)))


def _get(map_: Column, name: str) -> Column:
    """The value of a name in any case."""
    return F.get(F.map_values(F.map_filter(map_, lambda key, _: F.lower(key) == name)), F.lit(0))


def _has(map_: Column, name: str) -> Column:
    return F.coalesce(F.exists(F.map_keys(map_), lambda key: F.lower(key) == name), F.lit(False))


def _first(values: Sequence[Column]) -> Column:
    return F.coalesce(*values) if values else F.lit(None).cast("string")
