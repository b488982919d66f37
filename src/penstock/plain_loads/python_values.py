"""Python values as Arrow columns: each value exact, or an error that names its key and its index. No JVM.

The type of a column follows from all its values:

| values | type |
|---|---|
| bool | boolean |
| int within 64 bits | bigint |
| float; ints up to 2^53 beside floats | double |
| Decimal; ints beside Decimals | decimal with as many digits as the values need |
| str, bytes | string, binary |
| datetime with a time zone, without one, date | timestamp, timestamp_ntz, date |
| dict with text keys, list or tuple | struct, array |

None and missing keys are NULL. Values of types that do not go together are refused: nothing is turned into text, or rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pyarrow as pa

from penstock.errors import PlainLoadError
from penstock.plain_loads.arrow_types import check_names, untyped

_EXACT_IN_DOUBLE = 2**53
_MOST_DIGITS = 38
Indexed = Sequence[tuple[int, Any]]
"""Values that are not NULL, with the index of the row that each belongs to."""


def to_table(rows: Sequence[Any], *, may_leave_out: bool = False) -> pa.Table:
    """A list of dicts as a table: one column for each key of any of them.

    A key whose values are all None has no type: refused, or left out with `may_leave_out`.
    """
    names: dict[str, None] = {}
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise PlainLoadError(
                "value", f"row {index} is of type {type(row).__name__}, not a dict", hint="give a list of dicts"
            )
        names.update(dict.fromkeys(row))
    check_names(names)
    columns = {name: to_column(name, [row.get(name) for row in rows]) for name in names}
    unknown = [name for name, column in columns.items() if column is None]
    if unknown and not may_leave_out:
        raise untyped(unknown[0])
    return pa.table({name: column for name, column in columns.items() if column is not None})


def to_column(name: str, values: Iterable[Any], *, nan_is_null: bool = False) -> pa.Array | None:
    """One column; None when it has no value. With `nan_is_null`, NaN is NULL, as pandas has it."""
    plain = [_to_plain(name, index, value, nan_is_null) for index, value in enumerate(values)]
    type_ = _type_of(name, _present(plain))
    return None if type_ is None else _build(name, plain, type_)


def _to_plain(name: str, index: int, value: Any, nan_is_null: bool) -> Any:
    """The value without what numpy, pandas and enums wrap around it."""
    if isinstance(value, Enum):
        value = value.value
    library = type(value).__module__.partition(".")[0]
    if value is None or (library == "pandas" and type(value).__name__ in {"NAType", "NaTType"}):
        return None
    if library == "numpy" and type(value).__name__ == "ndarray":
        return [_to_plain(name, index, item, nan_is_null) for item in value]
    if library == "numpy":
        if type(value).__name__ in {"datetime64", "timedelta64", "longdouble", "clongdouble"}:
            raise _refused(name, index, value, "give a datetime or a Decimal")
        value = value.item()
    if nan_is_null and isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, datetime):
        return _check_datetime(name, index, value)
    if isinstance(value, Mapping):
        return {key: _to_plain(f"{name}.{key}", index, item, nan_is_null) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(f"{name}[]", index, item, nan_is_null) for item in value]
    return value


def _check_datetime(name: str, index: int, value: datetime) -> datetime:
    if getattr(value, "nanosecond", 0):  # only pandas.Timestamp has them
        raise _refused(name, index, value, "it has nanoseconds, and tables keep microseconds: round it yourself")
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


def _present(values: Iterable[Any]) -> Indexed:
    return [(index, value) for index, value in enumerate(values) if value is not None]


def _family_of(name: str, index: int, value: Any) -> str:
    """The family of a value: values of one family can share a column."""
    if isinstance(value, datetime):
        return "datetime with a time zone" if value.utcoffset() is not None else "datetime without a time zone"
    for types, family in _FAMILIES:
        if isinstance(value, types):
            return family
    raise _refused(name, index, value, "convert it, for example to text")


_FAMILIES: tuple[tuple[Any, str], ...] = (
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (Decimal, "Decimal"),
    (str, "str"),
    ((bytes, bytearray, memoryview), "bytes"),
    (date, "date"),
    (Mapping, "dict"),
    ((list, tuple), "list"),
)
_SIMPLE = {
    "bool": pa.bool_(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "datetime with a time zone": pa.timestamp("us", "UTC"),
    "datetime without a time zone": pa.timestamp("us"),
    "date": pa.date32(),
}
_NUMBERS = ({"int", "float"}, {"int", "Decimal"})


def _type_of(name: str, values: Indexed) -> pa.DataType | None:
    """The type that holds all values exactly; None when there is none to tell it from."""
    first: dict[str, int] = {}
    for index, value in values:
        first.setdefault(_family_of(name, index, value), index)
    if not first:
        return None
    if len(first) > 1 and set(first) not in _NUMBERS:
        (one, one_index), (other, other_index), *_ = first.items()
        raise PlainLoadError(
            "value",
            f"column {name!r} mixes types that do not go together: {one} in row {one_index}, {other} in row {other_index}",
            hint="give all values of a column the same type",
        )
    if "Decimal" in first:
        return _decimal_type(name, values)
    if "float" in first:
        return _double_type(name, values)
    if "int" in first:
        return _bigint_type(name, values)
    if "dict" in first:
        return _struct_type(name, values)
    return _list_type(name, values) if "list" in first else _SIMPLE[next(iter(first))]


def _bigint_type(name: str, values: Indexed) -> pa.DataType:
    for index, value in values:
        if not -(2**63) <= value < 2**63:
            raise _refused(
                name, index, value, "it does not fit into 64 bits: give all values of the column as Decimal, or as text"
            )
    return pa.int64()


def _double_type(name: str, values: Indexed) -> pa.DataType:
    for index, value in values:
        if isinstance(value, int) and abs(value) > _EXACT_IN_DOUBLE:
            raise _refused(
                name, index, value, "beside floats it would be rounded: give all values of the column as Decimal"
            )
    return pa.float64()


def _decimal_type(name: str, values: Indexed) -> pa.DataType:
    before = after = 0
    for index, value in values:
        number = Decimal(value)
        if not number.is_finite():
            raise _refused(name, index, value, "a table has no such decimal: give None, or floats")
        _, digits, exponent = number.as_tuple()
        scale = max(0, -int(exponent))
        before, after = max(before, len(digits) + int(exponent)), max(after, scale)
        if max(before, 0) + after > _MOST_DIGITS:
            raise _refused(name, index, value, "with it the column needs more than 38 digits: give the values as text")
    return pa.decimal128(max(before + after, 1), after)


def _struct_type(name: str, values: Indexed) -> pa.DataType:
    keys: dict[str, None] = {}
    for index, value in values:
        if not all(isinstance(key, str) for key in value):
            raise _refused(name, index, value, "the keys of a nested dict must be text")
        keys.update(dict.fromkeys(value))
    check_names(keys)
    fields = []
    for key in keys:
        inner = _type_of(f"{name}.{key}", [(i, v[key]) for i, v in values if v.get(key) is not None])
        if inner is None:
            raise untyped(f"{name}.{key}")
        fields.append(pa.field(key, inner))
    if not fields:
        raise untyped(name)
    return pa.struct(fields)


def _list_type(name: str, values: Indexed) -> pa.DataType:
    items = [(index, item) for index, value in values for item in value if item is not None]
    inner = _type_of(f"{name}[]", items)
    if inner is None:
        raise untyped(f"{name}[]")
    return pa.list_(inner)


def _build(name: str, values: list[Any], type_: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError, ValueError):
        raise PlainLoadError(
            "value",
            f"column {name!r} has a value that cannot be stored exactly as {type_}, in row {_first_bad(values, type_)}",
            hint="convert the values yourself, for example to text",
        ) from None


def _first_bad(values: list[Any], type_: pa.DataType) -> int:
    for index, value in enumerate(values):
        try:
            pa.array([value], type_)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError, ValueError):
            return index
    return -1


def _refused(name: str, index: int, value: Any, why: str) -> PlainLoadError:
    """The value itself is not shown: it may be personal."""
    return PlainLoadError(
        "value",
        f"column {name!r}, row {index}: a value of type {type(value).__name__} cannot be stored exactly",
        hint=why,
    )
