"""Rows added up into a few numbers, so that two large sets of rows can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.model.types import quote_name
from penstock.transforms.equality import fields_by_name

_BITS = 24
"""Numbers of so many bits can be added up 2**39 times before a sum overflows."""
_LOW_BITS = (1 << _BITS) - 1
_PLAIN = T.IntegralType | T.DatetimeType | T.BooleanType | T.BinaryType | T.StringType


def add_up_rows(rows: DataFrame) -> DataFrame:
    """One row: how many there are, and the sum and the exclusive or of their hashes over all columns."""
    return rows.select(hash_row(rows).alias("hash")).agg(*sums_of(F.col("hash")))


def sums_of(hash_: Column) -> list[Column]:
    """What rows with these hashes add up to, as aggregations."""
    return [
        F.count(F.lit(1)).alias("rows"),
        _exact_sum(hash_).cast("string").alias("total"),
        F.coalesce(F.bit_xor(hash_), F.lit(0)).alias("mixed"),
    ]


def _exact_sum(hash_: Column) -> Column:
    """The sum of 64-bit numbers, which needs more than 64 bits: added up in three parts, since decimals take Spark far longer."""
    low, middle, high = (
        F.coalesce(F.sum(part), F.lit(0)).cast("decimal(20,0)")
        for part in (
            hash_.bitwiseAND(F.lit(_LOW_BITS)),
            F.shiftright(hash_, _BITS).bitwiseAND(F.lit(_LOW_BITS)),
            F.shiftright(hash_, 2 * _BITS),
        )
    )
    return low + middle * F.lit(1 << _BITS).cast("decimal(10,0)") + high * F.lit(1 << 2 * _BITS).cast("decimal(16,0)")


def add_up_sides(sides: Sequence[DataFrame]) -> DataFrame:
    """The same for several sets of rows in one query; `side` is the number of each."""
    numbered = [add_up_rows(rows).withColumn("side", F.lit(number)) for number, rows in enumerate(sides)]
    return reduce(DataFrame.unionAll, numbered)


def hash_row(rows: DataFrame) -> Column:
    """A hash of a row over all columns, which differs if any value does, at any depth."""
    values = [(F.col(quote_name(field.name)), field.dataType) for field in rows.schema.fields]
    parts = [part for value, type_ in values for part in _parts_of(value, type_)]
    return F.xxhash64(*parts, *(value.isNull() for value, _ in values)) if values else F.lit(0).cast("bigint")


def _parts_of(value: Column, type_: T.DataType) -> list[Column]:
    """What has to be hashed of a value, since Spark's hash takes some values that differ for the same, and refuses others.

    Must not depend on whether a type allows NULLs: a table that is read allows more than the rows that were written to it.
    """
    match type_:
        case T.FloatType() | T.DoubleType():  # 0.0 and -0.0 have the same hash; only zeros are worth a text
            return [value, F.when(value == 0, value.cast("string"))]
        case T.StringType() if _is_collated(type_):  # 'a' and 'A' can be equal
            return [value, value.cast("binary")]
        case T.VariantType():  # the numbers 1 and 1.0, or a date and its text, have the same JSON
            return [F.to_json(value), F.schema_of_variant(value)]
        case T.ArrayType():
            return _parts_of_array(value, type_.elementType)
        case T.MapType():  # maps with the same entries are equal, whatever their order
            types = (type_.keyType, type_.valueType)
            entries = F.transform(
                F.map_entries(value),
                lambda entry: F.struct(*_flagged((entry["key"], types[0]), (entry["value"], types[1]))),
            )
            return [F.size(value), F.array_sort(entries)]
        case T.StructType():  # the order of fields makes no difference
            return _flagged(*((value[field.name], field.dataType) for field in fields_by_name(type_)))
        case _:
            return [value]


def _flagged(*values: tuple[Column, T.DataType]) -> list[Column]:
    """Whether each value is NULL, and their parts: Spark passes over NULLs, so that one that moved would not be noticed."""
    parts = [part for value, type_ in values for part in _parts_of(value, type_)]
    return [*(value.isNull() for value, _ in values), *parts]


def _parts_of_array(value: Column, element: T.DataType) -> list[Column]:
    """Its size, since the elements alone do not say where an array within an array ends, and the elements.

    Spark hashes elements far faster as they are: they are taken apart only where one is NULL or zero, or of another type.
    """
    apart = F.transform(value, lambda item: F.struct(*_flagged((item, element))))
    if not isinstance(element, _PLAIN | T.FractionalType) or _is_collated(element):
        return [F.size(value), apart]
    is_fraction = isinstance(element, T.FractionalType)
    is_odd = F.exists(value, lambda item: item.isNull() | (item == 0) if is_fraction else item.isNull())
    return [F.size(value), is_odd, F.when(is_odd, apart), F.when(~is_odd, value)]


def _is_collated(type_: T.DataType) -> bool:
    """Whether texts that differ can be equal."""
    return isinstance(type_, T.StringType) and type_.collation != T.StringType().collation
