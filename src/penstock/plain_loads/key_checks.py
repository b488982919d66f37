"""Keys that a user declares: never NULL, and each only once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.errors import PlainLoadError
from penstock.model.types import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def null_keys(keys: Sequence[str]) -> list[Column]:
    """Aggregations: how often each key column is NULL."""
    return [F.count_if(F.col(quote_name(key)).isNull()) for key in keys]


def check_no_null_keys(keys: Sequence[str], counts: Sequence[object]) -> None:
    """PlainLoadError when a key column is NULL, by the counts of `null_keys`."""
    for key, count in zip(keys, counts, strict=False):
        if count:
            raise PlainLoadError(
                "null_key",
                f"the key column {key!r} is NULL in {count} rows; nothing was written",
                hint="correct the source, or declare other keys",
            )


def check_comparable(rows: DataFrame, keys: Sequence[str]) -> None:
    """PlainLoadError when a key column is of a type that cannot be compared."""
    for key in keys:
        type_ = rows.schema[key].dataType
        if isinstance(type_, T.MapType | T.VariantType | T.FloatType | T.DoubleType):
            raise PlainLoadError(
                "key_type",
                f"the key column {key!r} is of type {type_.simpleString()}, which does not identify a row",
                hint="declare other keys, or cast it",
            )


def check_unique_keys(rows: DataFrame, keys: Sequence[str]) -> None:
    """PlainLoadError when several rows have the same key."""
    if not keys:
        return
    check_comparable(rows, keys)
    repeated = rows.groupBy(*(F.col(quote_name(key)) for key in keys)).count().where("count > 1").count()
    if repeated:
        raise PlainLoadError(
            "duplicate_key",
            f"{repeated} keys ({', '.join(keys)}) are there more than once; nothing was written",
            hint="correct the source, or declare other keys",
        )
