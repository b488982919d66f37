"""Duplicates of a declared key: of several rows with the same key, the last one stays, whatever file it came with.

Rows with NULL in a part of the key have no key, and stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.errors import ConfigError
from penstock.model.compaction import Policy
from penstock.model.names import DatasetName
from penstock.model.nearest import did_you_mean
from penstock.model.types import quote_name
from penstock.transforms.checksums import hash_row

RANK = "__penstock_rank"
"""The column that `rank_rows` adds: 1 for the last row of a key."""


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """The columns that identify a row, and those that tell which row of a key is the last, as a table spells them."""

    names: tuple[str, ...]
    order: tuple[str, ...]

    @property
    def columns(self) -> list[Column]:
        return [F.col(quote_name(name)) for name in self.names]

    @property
    def is_missing(self) -> Column:
        """Whether a row has no key."""
        return reduce(or_, (column.isNull() for column in self.columns))


def find_declared_key(rows: DataFrame, table: DatasetName, policy: Policy) -> DeclaredKey:
    """The key that a policy declares; ConfigError when the rows do not have its columns, or they cannot be compared."""
    names, order = (_find_columns(rows, table, policy, given) for given in (policy.keys, policy.keep_last_by))
    return DeclaredKey(names, order)


def _find_columns(rows: DataFrame, table: DatasetName, policy: Policy, names: Sequence[str]) -> tuple[str, ...]:
    known = {field.name.lower(): field for field in rows.schema.fields}
    found = []
    for name in names:
        field = known.get(name.lower())
        if field is None:
            raise ConfigError(
                f"{table} has no column {name}{did_you_mean(name, known)}; nothing was changed",
                hint="correct `keys` and `keep_last_by` of its compaction policy",
                location=policy.location,
            )
        if isinstance(field.dataType, T.MapType | T.VariantType):
            raise ConfigError(
                f"{table}.{name} cannot be compared: it is a {field.dataType.typeName()}; nothing was changed",
                location=policy.location,
            )
        found.append(field.name)
    return tuple(found)


def count_by_key(rows: DataFrame, key: DeclaredKey) -> DataFrame:
    """The keys as columns k0, k1 and so on, each with its number of rows in `rows`."""
    groups = rows.where(~key.is_missing).groupBy(*(column.alias(f"k{n}") for n, column in enumerate(key.columns)))
    return groups.agg(F.count(F.lit(1)).alias("rows"))


def count_duplicates(rows: DataFrame, key: DeclaredKey) -> DataFrame:
    """One row, whose `duplicates` is the number of rows that `keep_last` leaves out."""
    return count_by_key(rows, key).agg(F.coalesce(F.sum(F.col("rows") - 1), F.lit(0)).alias("duplicates"))


def rank_rows(rows: DataFrame, key: DeclaredKey) -> DataFrame:
    """The rows with their rank in RANK.

    A tie must not be decided by the order of files or columns, or a rebuild would keep another row: so it is decided by the
    values of the rows. Rows without a key are spread over all tasks; their rank means nothing.
    """
    by_name = rows.select(*(quote_name(name) for name in sorted(rows.columns, key=str.lower)))
    content = hash_row(by_name)
    order = [F.col(quote_name(column)).desc_nulls_last() for column in key.order]
    window = Window.partitionBy(*key.columns, F.when(key.is_missing, content)).orderBy(*order, content.desc())
    return rows.withColumn(RANK, F.row_number().over(window))


def keep_last(rows: DataFrame, key: DeclaredKey) -> DataFrame:
    """The rows without duplicates of the key."""
    return rank_rows(rows, key).where((F.col(RANK) == 1) | key.is_missing).drop(RANK)
