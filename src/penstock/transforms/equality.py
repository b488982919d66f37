"""Comparing values as the rules of change events do: NULLs are equal, maps compare by their entries, structs by name.

Which order a table's columns have depends on which event came first. So fields compare in the order of their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.model.changes import Flow
from penstock.model.types import Array, SparkType, Struct, has_map, parts_of, to_text, type_from_json

_FLOATS = frozenset({"float", "double"})


def comparable(value: Column, type_: T.DataType) -> Column:
    """The value in a form that can be ordered and compared: maps as sorted entries, fields by name, at any depth."""
    if _is_comparable(type_):
        return value
    if isinstance(type_, T.MapType):
        entries = F.transform(
            F.map_entries(value),
            lambda entry: F.struct(
                comparable(entry["key"], type_.keyType).alias("key"),
                comparable(entry["value"], type_.valueType).alias("value"),
            ),
        )
        return F.array_sort(entries)
    if isinstance(type_, T.ArrayType):
        return F.transform(value, lambda item: comparable(item, type_.elementType))
    fields = [comparable(value[field.name], field.dataType).alias(field.name) for field in fields_by_name(type_)]
    return F.when(value.isNotNull(), F.struct(*fields))


def canonical(value: Column, type_: SparkType) -> Column:
    """One form for equal values, at any depth: 0.0 for -0.0. So it does not matter which of them came first."""
    if not _has_floats(type_):
        return value
    if isinstance(type_, Array):
        return F.transform(value, lambda item: canonical(item, type_.element))
    if isinstance(type_, Struct):
        fields = [canonical(value.getField(name), part).alias(name) for name, part in type_.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    return F.when(value == 0, F.lit(0.0).cast(to_text(type_))).otherwise(value)


def zero_signs(value: Column, type_: T.DataType) -> Column | None:
    """What tells equal values apart whose zeros are 0.0 in one and -0.0 in the other; None for a type without floats."""
    if not _has_floats(type_from_json(type_.jsonValue())):
        return None
    if isinstance(type_, T.StructType):
        signs = (zero_signs(value[field.name], field.dataType) for field in fields_by_name(type_))
        return F.struct(*(sign for sign in signs if sign is not None))
    text = comparable(value, type_).cast("string")  # the order of a map's entries says nothing
    return F.when(value == 0, text) if isinstance(type_, T.FloatType | T.DoubleType) else text


def _has_floats(type_: SparkType) -> bool:
    return any(isinstance(part, str) and part in _FLOATS for part in parts_of(type_))


def is_same(flow: Flow, one: Column, other: Column, frame: DataFrame, names: Sequence[str] | None = None) -> Column:
    """Whether two rows of data are the same, NULLs included; or, if columns are given, whether their values are equal."""
    type_ = frame.schema["data"].dataType
    if names is None:
        is_equal = _is_equal(flow, one, other, type_)
        signs, others = zero_signs(one, type_), zero_signs(other, type_)
        return is_equal if signs is None or others is None else is_equal & signs.eqNullSafe(others)
    return _is_equal(flow, one, other, type_, names)


def _is_equal(flow: Flow, one: Column, other: Column, type_: T.DataType, names: Sequence[str] | None = None) -> Column:
    if names is None and not has_map(type_from_json(type_.jsonValue())):  # the order of fields makes no difference here
        return one.eqNullSafe(other)
    chosen = set(names if names is not None else flow.names)
    fields = [field for field in fields_of(type_) if field.name in chosen]
    unequal = [
        ~comparable(one[field.name], field.dataType).eqNullSafe(comparable(other[field.name], field.dataType))
        for field in fields
    ]
    return ~reduce(or_, unequal) if unequal else F.lit(True)


def fields_of(type_: T.DataType) -> list[T.StructField]:
    """The fields of a struct; none of another type."""
    return type_.fields if isinstance(type_, T.StructType) else []


def fields_by_name(type_: T.DataType) -> list[T.StructField]:
    """The same in the order of their names."""
    return sorted(fields_of(type_), key=lambda field: field.name.lower())


def _is_comparable(type_: T.DataType) -> bool:
    if isinstance(type_, T.ArrayType):
        return _is_comparable(type_.elementType)
    fields = fields_of(type_)
    is_sorted = fields == fields_by_name(type_) and all(_is_comparable(field.dataType) for field in fields)
    return is_sorted and not isinstance(type_, T.MapType)
