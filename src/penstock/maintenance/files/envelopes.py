"""Where a change record has rows: in itself, in `data`, or in `before`, `after` and the message key of Debezium's envelope."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from penstock.maintenance.files.values import RecordError

_KEYS = frozenset({"key", "_key", "__key", "message_key"})
"""Names under which files keep the key of a Kafka message beside its value; a tombstone has nothing else."""

Row = Mapping[str, Any]
"""The values of a row by column name in lower case, because Spark ignores case."""

_REPEATED = "it has a field more than once"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RecordError(_REPEATED)
    return found


DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Decimal)
"""JSON with exact numbers; a field that is there twice is an error, because it is not certain which one a reader takes."""


def rows_of(record: Mapping[str, Any], envelope: str | None, key_column: str | None = None) -> Iterator[Row]:
    """Every row in a record; RecordError when something in the place of a row cannot be searched.

    A truncate has none, whatever is in it: it must stay, because it concerns every row. Of a Debezium record these are the
    row before, the row after, and the message key; a key that is a bare value is one of `key_column`.
    """
    fields = lower_names(record)
    if envelope is None:
        yield fields
        return
    if envelope == "events":
        if str(fields.get("operation")).upper() != "TRUNCATE":
            yield from _row(fields.get("data"), "data")
        return
    inner = fields
    if "payload" in fields and "op" not in fields:
        payload = list(_row(fields["payload"], "payload"))
        inner = payload[0] if payload else {}
    if inner.get("op") == "t":
        return
    images = [row for name in ("before", "after") for row in _row(inner.get(name), name)]
    yield from images
    for name in _KEYS.intersection(inner):
        yield from _key(inner[name], name, key_column, is_alone=not images)
    for name in _KEYS.intersection(fields) if inner is not fields else ():
        yield from _key(fields[name], name, key_column, is_alone=not images)


def _row(value: Any, name: str) -> Iterator[Row]:
    """A row, also as JSON text: Debezium writes documents and some keys so."""
    if isinstance(value, str):
        value = _parse(value)
    if isinstance(value, dict):
        yield lower_names(value)
    elif value is not None:
        raise RecordError(f"its field {name!r} is not an object")


def _key(value: Any, name: str, column: str | None, *, is_alone: bool) -> Iterator[Row]:
    """A message key: a row, a row with its schema beside it, or a bare value."""
    found = _parse(value) if isinstance(value, str) else value
    if isinstance(found, dict) and set(lower_names(found)) == {"schema", "payload"}:
        found = lower_names(found)["payload"]
    if isinstance(found, dict):
        yield lower_names(found)
    elif value is not None and column is not None:
        yield {column.lower(): value}
    elif value is not None and is_alone:
        raise RecordError(f"its message key, in the field {name!r}, is not an object")


def _parse(text: str) -> Any:
    try:
        return DECODER.decode(text)
    except RecordError:
        raise
    except (ValueError, RecursionError):
        return text


def lower_names(record: Mapping[str, Any]) -> Row:
    """The record with names in lower case; RecordError when two are the same then."""
    found = {name.lower(): value for name, value in record.items()}
    if len(found) != len(record):
        raise RecordError(_REPEATED)
    return found


def tables_of(table: Any, envelope: str | None, key_column: str | None = None) -> list[Any]:
    """The same for a Parquet change file: for each place of rows a `pyarrow.Table` as long as the one given.

    Where a place is NULL, so are all its columns.
    """
    import pyarrow as pa

    if envelope is None:
        return [table]
    columns = lower_names(dict(zip(table.column_names, table.columns, strict=True)))
    payload = columns.get("payload")
    if envelope == "debezium" and payload is not None and "op" not in columns and pa.types.is_struct(payload.type):
        columns = {**columns, **_fields(payload)}
    found = []
    for name in ("data",) if envelope == "events" else ("before", "after", *sorted(_KEYS)):
        column = columns.get(name)
        if column is None or column.null_count == len(column):
            continue
        if pa.types.is_struct(column.type):
            found.append(pa.table(_fields(column)))
        elif name in _KEYS and key_column is not None:
            found.append(pa.table({key_column.lower(): column}))
        else:
            raise RecordError(f"its column {name!r} is not a struct")
    return found


def _fields(column: Any) -> dict[str, Any]:
    import pyarrow as pa

    parts = [chunk.flatten() for chunk in column.chunks]
    fields = column.type.fields
    arrays = [pa.chunked_array([part[place] for part in parts], field.type) for place, field in enumerate(fields)]
    return dict(lower_names({field.name: array for field, array in zip(fields, arrays, strict=True)}))
