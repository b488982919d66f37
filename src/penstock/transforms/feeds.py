"""Change-feed envelopes into flat change rows, as AutoCDC takes them. One row in, at most one row out.

Every decoder gives the data's fields as columns, and beside them one struct `_change`:

- `operation`: `upsert`, `delete` or `truncate`; NULL when the envelope has an unknown operation or could not be read. Such a row
  is not dropped here, because a transform cannot count: the caller must count such rows and reject them.
- `unavailable`: names of columns for which the feed has no value. They are NULL in the row, but mean "unchanged".
- every other column of the envelope under its own name, so that `_change.ts_ms` or `_change.source.lsn` can be the sequence.

Keys are not checked here: a delete without a `before`, or an upsert without an `after`, gives a row of NULLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.errors import FeedError
from penstock.model.types import SparkType, quote_name, to_text, type_from_json
from penstock.transforms.conform import convert_parts
from penstock.transforms.placeholders import UNAVAILABLE_VALUE, is_unavailable

CHANGE = "_change"
"""The struct next to the data columns that says what happened."""

UPSERT, DELETE, TRUNCATE = "upsert", "delete", "truncate"

_EVENT_WORDS = {"INSERT": UPSERT, "UPDATE": UPSERT, "UPSERT": UPSERT, "DELETE": DELETE, "TRUNCATE": TRUNCATE}
_DEBEZIUM_WORDS = {"c": UPSERT, "u": UPSERT, "r": UPSERT, "d": DELETE, "t": TRUNCATE}
_MESSAGE = "m"
_DEBEZIUM_COLUMNS = ("before", "after", "op", "source", "transaction", "message", "ts_ms", "ts_us", "ts_ns")
_OWN_FIELDS = ("operation", "unavailable")
CORRUPT = "_corrupt_record"
"""Where Spark's JSON reader keeps a line that it cannot read completely; the values that it could not read are NULL."""

_READ_WITH_SCHEMA = "read the feed with a schema: types inferred from rows differ between batches"
_RENAME = "rename it where the feed is read"


@dataclass(frozen=True, slots=True, eq=False)  # columns cannot be compared: `==` makes a new one
class _Field:
    """A column of the frame or a field of a struct, with any characters in its name."""

    name: str
    type: T.DataType
    value: Column


@dataclass(frozen=True, slots=True, eq=False)
class _DataColumn:
    """A column of a change row; `is_missing` is None when its value is never unavailable."""

    name: str
    value: Column
    is_missing: Column | None = None


_Fields: TypeAlias = Mapping[str, _Field]
"""By lower-case name: Spark and Delta ignore case."""


def decode_events(frame: DataFrame, *, operation: str = "operation", data: str = "data") -> DataFrame:
    """Change rows from events that name their operation and contain the row as a struct.

    Needs a text column (INSERT, UPDATE, UPSERT, DELETE or TRUNCATE, in any case) and a struct column. Rows without any
    value, as Kafka's tombstones give, are dropped. Returns the columns that the docstring of this module describes.
    """
    fields = _columns(frame)
    word = _need_text(fields, operation)
    content = _need(fields, data)
    if not isinstance(content.type, T.StructType):
        raise _wrong_type(content, "a struct")
    data_columns = [_DataColumn(field.name, field.value) for field in _inside(content).values()]
    others = [field for field in fields.values() if field not in (word, content)]
    kept = frame.where(~_is_tombstone(fields.values(), fields))
    meaning = F.when(~_is_corrupt(fields), _operation(F.upper(word.value), _EVENT_WORDS))
    return _select(kept, data_columns, meaning, others)


def decode_debezium(frame: DataFrame, *, unavailable: str = UNAVAILABLE_VALUE) -> DataFrame:
    """Change rows from Debezium's envelopes, plain or below `payload` beside a `schema`.

    Needs `before`, `after` and `op`. The row is `after`, and for a delete `before`: that is where the key is. Tombstones and
    logical decoding messages (`m`) are dropped. Returns the columns that the docstring of this module describes, including `op`.
    """
    columns = _columns(frame)
    payload = _payload(columns)
    envelope = columns if payload is None else _inside(payload)
    word = _need_text(envelope, "op")
    before, after = _need(envelope, "before"), _need(envelope, "after")
    is_delete = word.value == "d"
    data_columns = list(_pick_images(_image(before), _image(after), is_delete, unavailable))
    if not data_columns:
        raise FeedError("neither before nor after of the change feed is a struct with fields", hint=_READ_WITH_SCHEMA)
    image_is_text = F.when(is_delete, _is_text(before)).otherwise(_is_text(after))
    operation = F.when(~image_is_text & ~_is_corrupt(columns), _operation(word.value, _DEBEZIUM_WORDS))
    others = [field for field in envelope.values() if field not in (before, after)]
    if payload is not None:
        others += [field for name, field in columns.items() if name not in {"schema", "payload"}]
    known = [envelope[name] for name in _DEBEZIUM_COLUMNS if name in envelope]
    is_tombstone = _is_tombstone(known if payload is None else [payload], columns)
    kept = frame.where(~is_tombstone & ~word.value.eqNullSafe(_MESSAGE))
    return _select(kept, data_columns, operation, others)


def is_envelope(frame: DataFrame) -> str | None:
    """Which decoder fits a frame, by its columns and their types: `debezium`, `events`, or None when that is not certain."""
    types = {field.name.lower(): field.dataType for field in frame.schema.fields}
    payload = types.get("payload")
    inner = types
    if isinstance(payload, T.StructType) and "op" not in types:
        inner = {field.name.lower(): field.dataType for field in payload.fields}
    images = [inner.get("before"), inner.get("after")]
    is_debezium = isinstance(inner.get("op"), T.StringType) and None not in images
    is_debezium = is_debezium and any(isinstance(image, T.StructType) for image in images)
    is_events = isinstance(types.get("operation"), T.StringType) and isinstance(types.get("data"), T.StructType)
    if is_debezium == is_events:
        return None
    return "debezium" if is_debezium else "events"


def _select(frame: DataFrame, data: list[_DataColumn], operation: Column, others: list[_Field]) -> DataFrame:
    """The data columns and `_change`; rejects names that would hide each other."""
    if any(column.name.lower() == CHANGE for column in data):
        raise FeedError(
            f"the data of the change feed has a field {CHANGE}, a name that Penstock uses itself", hint=_RENAME
        )
    for name in (field.name for field in others):
        if name.lower() in _OWN_FIELDS:
            raise FeedError(
                f"the change feed has a column {name}, which would hide {CHANGE}.{name.lower()}", hint=_RENAME
            )
    _by_name(others, "the change feed and its payload")
    names = [F.when(column.is_missing, F.lit(column.name)) for column in data if column.is_missing is not None]
    missing = F.array_compact(F.array(*names).cast("array<string>"))
    what = [operation.alias("operation"), missing.alias("unavailable")]
    change = F.struct(*what, *(field.value.alias(field.name) for field in others))
    return frame.select(*(column.value.alias(column.name) for column in data), change.alias(CHANGE))


def _operation(word: Column, words: Mapping[str, str]) -> Column:
    """What the row means; NULL when the operation is unknown or missing."""
    pairs = (F.when(word == key, F.lit(meaning)) for key, meaning in words.items())
    return F.coalesce(*pairs)


def _is_tombstone(fields: Iterable[_Field], columns: _Fields) -> Column:
    """Whether a row is empty. An unreadable line is not a tombstone: it would be lost silently."""
    empty = (field.value.isNull() for field in fields if field.name.lower() != CORRUPT)
    return reduce(and_, empty, ~_is_corrupt(columns))


def _is_corrupt(columns: _Fields) -> Column:
    """Whether the reader could not read the row; never NULL. The JSON `null`, a tombstone in a file, is readable."""
    if CORRUPT not in columns:
        return F.lit(False)
    return F.coalesce(F.trim(columns[CORRUPT].value.cast("string")) != "null", F.lit(False))


def _payload(columns: _Fields) -> _Field | None:
    """The column that holds the envelope when the feed comes with its schema."""
    found = columns.get("payload")
    if found is None or "op" in columns:
        return None
    if not isinstance(found.type, T.StructType):
        raise _wrong_type(found, "a struct")
    return found


def _image(field: _Field) -> _Fields:
    """The fields of `before` or `after`; none when all rows were NULL, which JSON inference reads as text."""
    if isinstance(field.type, T.StructType):
        return _inside(field)
    if isinstance(field.type, T.StringType | T.NullType):
        return {}
    raise _wrong_type(field, "a struct")


def _is_text(image: _Field) -> Column:
    """Whether a row has text instead of a struct: its content would be lost, so its operation counts as unknown."""
    return F.lit(False) if isinstance(image.type, T.StructType) else image.value.isNotNull()


def _pick_images(before: _Fields, after: _Fields, is_delete: Column, placeholder: str) -> Iterator[_DataColumn]:
    """Each column of either image: from `before` for a delete, otherwise from `after`, whose type it has."""
    for key in {**after, **before}:
        old, new = before.get(key), after.get(key)
        shape = new or before[key]
        old_value, old_missing = _available(old, shape, placeholder)
        new_value, new_missing = _available(new, shape, placeholder)
        is_missing = None
        if old_missing is not None or new_missing is not None:
            is_missing = F.when(is_delete, _or_false(old_missing)).otherwise(_or_false(new_missing))
        yield _DataColumn(shape.name, F.when(is_delete, old_value).otherwise(new_value), is_missing)


def _available(field: _Field | None, shape: _Field, placeholder: str) -> tuple[Column, Column | None]:
    """The value in the type of `shape`, NULL when it is the placeholder; and whether it is."""
    if field is None:
        return F.lit(None).cast(shape.type), None
    is_missing = is_unavailable(field.value, field.type, placeholder)
    # The placeholder is removed before the conversion, which would fail on it.
    value = field.value if is_missing is None else F.when(is_missing, F.lit(None)).otherwise(field.value)
    return _convert(value, field.type, shape.type, shape.name), is_missing


def _or_false(condition: Column | None) -> Column:
    return F.lit(False) if condition is None else condition


def _convert(value: Column, old: T.DataType, new: T.DataType, name: str) -> Column:
    """The value in another type, with structs matched by name."""

    def bring_together(part: Column, before: SparkType, after: SparkType) -> Column:
        if isinstance(before, str) and isinstance(after, str):
            return part.cast(after)
        if after == "string":
            return F.to_json(part)
        if before in {"string", "void"}:  # NULL in every row, or types that JSON inference could not combine
            return F.from_json(part.cast("string"), to_text(after), {"mode": "FAILFAST"})
        raise FeedError(
            f"before and after of the change feed have different types for {name}: {to_text(before)} and {to_text(after)}",
            hint=_READ_WITH_SCHEMA,
        )

    return convert_parts(value, type_from_json(old.jsonValue()), type_from_json(new.jsonValue()), bring_together)


def _columns(frame: DataFrame) -> _Fields:
    fields = (_Field(field.name, field.dataType, F.col(quote_name(field.name))) for field in frame.schema.fields)
    return _by_name(fields)


def _inside(field: _Field) -> _Fields:
    if not isinstance(field.type, T.StructType):
        return {}
    inner = (_Field(part.name, part.dataType, field.value.getField(part.name)) for part in field.type.fields)
    return _by_name(inner, field.name)


def _by_name(fields: Iterable[_Field], where: str = "the change feed") -> _Fields:
    """The fields by name; FeedError when two have the same name."""
    found: dict[str, _Field] = {}
    for field in fields:
        if field.name.lower() in found:
            raise FeedError(f"{where} has more than one field {field.name}: names are not case-sensitive", hint=_RENAME)
        found[field.name.lower()] = field
    return found


def _need(fields: _Fields, name: str) -> _Field:
    if name.lower() in fields:
        return fields[name.lower()]
    found = ", ".join(field.name for field in fields.values()) or "none"
    raise FeedError(
        f"the change feed has no column {name}; it has {found}",
        hint="check that the feed has the declared envelope, and that the schema of the reader has every column",
    )


def _need_text(fields: _Fields, name: str) -> _Field:
    field = _need(fields, name)
    if isinstance(field.type, T.StringType):
        return field
    raise _wrong_type(field, "text")


def _wrong_type(field: _Field, needed: str) -> FeedError:
    found = field.type.simpleString()
    return FeedError(
        f"the column {field.name} of the change feed is {found}; it must be {needed}", hint=_READ_WITH_SCHEMA
    )
