"""Rows added up into a few numbers, so that two large sets of rows can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.model.types import quote_name

_BITS = 24
"""Numbers of so many bits can be added up 2**39 times before a sum overflows."""
_LOW_BITS = (1 << _BITS) - 1


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
    """A hash of a row over all columns.

    Whether a value is NULL is hashed too: Spark's hash passes over NULLs, so a value that moved to the next column
    would not be noticed.
    """
    columns = [F.col(quote_name(field.name)) for field in rows.schema.fields]
    values = [hashable(column, field.dataType) for column, field in zip(columns, rows.schema.fields, strict=True)]
    return F.xxhash64(*values, *(column.isNull() for column in columns)) if columns else F.lit(0).cast("bigint")


def hashable(value: Column, type_: T.DataType) -> Column:
    """The value in a form that Spark can hash: maps as sorted entries, variants as JSON, at any depth."""
    if isinstance(type_, T.VariantType):
        return F.to_json(value)
    if _is_hashable(type_):
        return value
    if isinstance(type_, T.MapType):
        entries = F.transform(
            F.map_entries(value),
            lambda entry: F.struct(
                hashable(entry["key"], type_.keyType).alias("key"),
                hashable(entry["value"], type_.valueType).alias("value"),
            ),
        )
        return F.array_sort(entries)
    if isinstance(type_, T.ArrayType):
        return F.transform(value, lambda item: hashable(item, type_.elementType))
    fields = type_.fields if isinstance(type_, T.StructType) else []
    return F.when(
        value.isNotNull(),
        F.struct(*(hashable(value[field.name], field.dataType).alias(field.name) for field in fields)),
    )


def _is_hashable(type_: T.DataType) -> bool:
    if isinstance(type_, T.ArrayType):
        return _is_hashable(type_.elementType)
    if isinstance(type_, T.StructType):
        return all(_is_hashable(field.dataType) for field in type_.fields)
    return not isinstance(type_, T.MapType | T.VariantType)
