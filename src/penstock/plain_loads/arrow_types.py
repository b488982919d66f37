"""Arrow columns in the types that a table can have, each value exact; or an error that names the column. No JVM."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from penstock.errors import PlainLoadError
from penstock.model.changes import INTERNAL_COLUMNS

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}
_KEPT = frozenset(
    {
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.string(),
        pa.binary(),
    }
)


def to_lake_column(name: str, column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type that a table can have; PlainLoadError when a value would change, or the type does not exist there."""
    found = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    type_ = _to_lake_type(name, found.type)
    if type_ == found.type:
        return found
    try:
        return found.cast(type_, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise PlainLoadError(
            "value",
            f"column {name!r} has values of type {found.type} that {_shown(type_)} cannot hold exactly",
            hint=_hint(found.type),
        ) from None


def _hint(type_: pa.DataType) -> str:
    if pa.types.is_timestamp(type_):
        return "tables keep microseconds: round the values yourself, or store them as text or as a whole number"
    return "convert the values yourself, for example to text or to Decimal"


def _shown(type_: pa.DataType) -> str:
    return f"a column of type {type_}"


def _to_lake_type(name: str, type_: pa.DataType) -> pa.DataType:
    if type_ in _KEPT:
        return type_
    if type_ in _WIDER:
        return _WIDER[type_]
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", "UTC" if type_.tz else None)
    if pa.types.is_large_string(type_) or _is_view(type_, "string_view"):
        return pa.string()
    if pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_) or _is_view(type_, "binary_view"):
        return pa.binary()
    if pa.types.is_decimal(type_) and type_.precision <= 38 and 0 <= type_.scale <= type_.precision:
        return pa.decimal128(type_.precision, type_.scale)
    if pa.types.is_dictionary(type_):
        return _to_lake_type(name, type_.value_type)
    return _to_nested_type(name, type_)


def _to_nested_type(name: str, type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_) and type_.num_fields:
        return pa.struct([_to_lake_field(name, type_.field(place)) for place in range(type_.num_fields)])
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return pa.list_(_to_lake_type(f"{name}[]", type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(
            _to_lake_type(f"{name} (key)", type_.key_type), _to_lake_type(f"{name} (value)", type_.item_type)
        )
    if pa.types.is_null(type_):
        raise untyped(name)
    raise PlainLoadError(
        "value",
        f"column {name!r} is of type {type_}, which a table cannot have",
        hint="convert the column to text or numbers",
    )


def _to_lake_field(name: str, field: pa.Field) -> pa.Field:
    return pa.field(field.name, _to_lake_type(f"{name}.{field.name}", field.type))


def _is_view(type_: pa.DataType, name: str) -> bool:
    return str(type_) == name


def untyped(name: str) -> PlainLoadError:
    """For a column with no value at all: nobody knows what it should become."""
    return PlainLoadError(
        "untyped",
        f"column {name!r} has no value, so that its type is unknown",
        hint='give it a type, such as frame.astype({"x": "string"}), or leave the column out',
    )


def check_names(names: Iterable[Any]) -> None:
    """PlainLoadError unless the columns have names that a table can have, each only once whatever its case."""
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not name:
            raise PlainLoadError(
                "column_name", f"a column is called {name!r}; names of columns must be text", hint="rename the columns"
            )
        if (other := seen.get(name.lower())) is not None:
            what = (
                f"the column {name!r} is there twice"
                if other == name
                else f"{other!r} and {name!r} differ only in case"
            )
            raise PlainLoadError("column_name", what, hint="rename or drop one of them: names of columns ignore case")
        if name.lower().startswith("__penstock"):
            raise PlainLoadError(
                "column_name", f"the column {name!r} has a name that Penstock itself uses", hint="rename it"
            )
        if name.lower() in INTERNAL_COLUMNS:
            raise PlainLoadError(
                "column_name", f"the column {name!r} has a name that Spark itself uses", hint="rename it"
            )
        seen[name.lower()] = name
