"""Records of JSON and CSV files with the parts of a key as they are written there, for every row that a record contains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.model.types import quote_name
from penstock.transforms.key_match import FILE, ROW, Image, RecordKey, all_null, text_images

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CORRUPT = "__penstock_corrupt"
"""Where the reader keeps a record that it cannot read."""
MESSAGE_KEYS = ("key", "_key", "__key", "message_key")
_UNUSED = "__penstock_unused"
_MAP = "map<string,string>"
TRUNCATES = {"events": ("operation", "TRUNCATE"), "debezium": ("op", "T")}
"""The column that says what an event means, and its word for a truncate, in upper case."""


def json_schema(found: T.StructType, key: RecordKey) -> T.StructType:
    """The columns to read, all as text: objects are read as they are written. `found` are the columns that there are."""
    wanted = top_names(key)
    fields = [T.StructField(field.name, T.StringType()) for field in found if field.name.lower() in wanted]
    return T.StructType([*fields, T.StructField(_UNUSED, T.StringType()), T.StructField(CORRUPT, T.StringType())])


def top_names(key: RecordKey) -> frozenset[str]:
    """The columns of a record that can have a row, or say what it means; in lower case."""
    if key.envelope is None:
        return frozenset[str]().union(*key.names)
    if key.envelope == "events":
        return frozenset({"data", "operation"})
    return frozenset({"before", "after", "payload", "op", *MESSAGE_KEYS})


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


def file_address(rows: DataFrame) -> Column:
    """The address of each row's file as `storage.addresses.without_scheme` gives it."""
    path = F.url_decode(F.replace(rows.metadataColumn("_metadata")["file_path"], F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(path, "^([A-Za-z0-9+.-]+:)?/*", "")


def is_corrupt(rows: DataFrame) -> Column | None:
    """Whether the reader could not read a record; the JSON `null` is readable."""
    if CORRUPT not in rows.columns:
        return None
    return F.col(CORRUPT).isNotNull() & (F.trim(F.col(CORRUPT)) != "null") & F.col(_UNUSED).isNull()


def images_of(rows: DataFrame, key: RecordKey) -> list[Image]:
    """The rows in each record. A truncate has none: it must stay, whatever else is in it."""
    columns = {name.lower(): F.col(quote_name(name)) for name in rows.columns}
    if key.envelope is None:
        raw = [_first([columns[name] for name in sorted(names) if name in columns]) for names in key.names]
        there = ~all_null(raw) if key.is_source else None
        return text_images(raw, key.types, key.format, key.options, there)
    stays = _is_truncate(columns, key)
    images: list[Image] = []
    for image, bare in _find_images(columns, key):
        raw, there = _parts(image, key)
        images += text_images(raw, key.types, key.format, key.options, there & ~stays)
        if bare is not None and len(key.names) == 1 and key.message_key in key.names[0]:
            is_bare = bare.isNotNull() & ~_is_object(bare) & ~stays
            images += text_images([bare], key.types, key.format, key.options, is_bare)
    return images


def _find_images(columns: Mapping[str, Column], key: RecordKey) -> Iterable[tuple[Column, Column | None]]:
    """The maps of rows in a record, and for message keys their text too."""
    if key.envelope == "events":
        return [(_to_map(columns["data"]), None)] if "data" in columns else []
    found: list[tuple[Column, Column | None]] = []
    sources = [dict(columns)]
    if "payload" in columns:
        payload = _to_map(columns["payload"])
        sources.append({name: _get(payload, name) for name in ("before", "after", *MESSAGE_KEYS)})
    for source in sources:
        found += [(_to_map(source[name]), None) for name in ("before", "after") if name in source]
        for name in MESSAGE_KEYS:
            if name in source:
                outer = _to_map(source[name])
                is_wrapped = F.size(F.map_filter(outer, lambda k, _: ~F.lower(k).isin("schema", "payload"))) == 0
                inner = F.when(is_wrapped & _has(outer, "payload"), _to_map(_get(outer, "payload"))).otherwise(outer)
                found.append((inner, source[name]))
    return found


def _parts(image: Column, key: RecordKey) -> tuple[list[Column], Column]:
    """The parts of the key in a row, and whether the row is there.

    Debezium's images have all their columns: one without the column, such as a message key, says nothing about it.
    """
    raw = [_first([_get(image, name) for name in sorted(names)]) for names in key.names]
    there = image.isNotNull() & ~all_null(raw)
    if key.envelope == "debezium":
        for names in key.names:
            there = there & F.arrays_overlap(
                F.transform(F.map_keys(image), F.lower), F.array(*(F.lit(name) for name in sorted(names)))
            )
    return raw, F.coalesce(there, F.lit(False))


def _is_truncate(columns: Mapping[str, Column], key: RecordKey) -> Column:
    name, word = TRUNCATES[key.envelope or ""]
    found = [F.upper(columns[name]) == word] if name in columns else []
    if "payload" in columns:
        found.append(F.upper(_get(_to_map(columns["payload"]), name)) == word)
    return F.coalesce(*found, F.lit(False))


def _to_map(text: Column) -> Column:
    return F.from_json(text, _MAP)


def _is_object(text: Column) -> Column:
    return F.coalesce(F.trim(text).startswith("{"), F.lit(False))


def _get(map_: Column, name: str) -> Column:
    """The value of a name in any case."""
    return F.get(F.map_values(F.map_filter(map_, lambda key, _: F.lower(key) == name)), F.lit(0))


def _has(map_: Column, name: str) -> Column:
    return F.exists(F.map_keys(map_), lambda key: F.lower(key) == name)


def _first(values: Sequence[Column]) -> Column:
    return F.coalesce(*values) if values else F.lit(None).cast("string")
