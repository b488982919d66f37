"""Which rows of a load by timestamp are not stored yet: by key, or by content where rows have no key.

Both compare values, never hashes: a row is left out only if every column is equal, NULLs included.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.model.types import quote_name
from penstock.transforms.checksums import hash_row
from penstock.transforms.equality import comparable

IS_NEW = "__penstock_is_new"
"""Whether the key of a row is not stored yet."""
IS_AMBIGUOUS = "__penstock_is_ambiguous"
"""Whether the source has another row of the same key with the same cursor and other values."""
_STORED, _COPY, _CONTENT, _HASH = (f"__penstock_{name}" for name in ("stored", "copy", "content", "hash"))


def find_missing_copies(rows: DataFrame, stored: DataFrame) -> DataFrame:
    """The rows that are not stored as often as they are given: of three equal rows beside two stored ones, one.

    Needs the same columns on both sides, and on the side of `stored` every row that can be given again.
    """
    given, known = _number_copies(rows), _number_copies(stored).select(_CONTENT, _COPY)
    is_stored = given[_CONTENT].eqNullSafe(known[_CONTENT]) & (given[_COPY] == known[_COPY])
    return given.join(known, is_stored, "left_anti").drop(_CONTENT, _COPY)


def _number_copies(rows: DataFrame) -> DataFrame:
    # Copies are equal, so any order of them is the same.
    copies = Window.partitionBy(_CONTENT).orderBy(_CONTENT)
    return rows.withColumn(_CONTENT, _content(rows)).withColumn(_COPY, F.row_number().over(copies))


def find_newer_rows(rows: DataFrame, stored: DataFrame, keys: Sequence[str], cursor: str) -> DataFrame:
    """The newest row of each key, if it is new or differs from the stored one, with the columns IS_NEW and IS_AMBIGUOUS.

    A row with an older cursor than the stored one is left out. One with the same cursor is not: two updates can have the same
    time, and the source shows only the last. NULL is no cursor: such a row replaces what is stored, and is replaced by any other.
    """
    newest = _keep_newest(rows, keys, cursor)
    places = [F.col(quote_name(key)).alias(f"__penstock_key{place}") for place, key in enumerate(keys)]
    known = stored.select(*places, _content(stored).alias(_STORED), F.col(quote_name(cursor)).alias(_COPY))
    same_key = reduce(
        and_, (newest[quote_name(key)] == known[f"__penstock_key{place}"] for place, key in enumerate(keys))
    )
    is_new = F.col(_STORED).isNull()
    is_older = F.coalesce(F.col(_COPY) > newest[quote_name(cursor)], F.lit(False))
    is_changed = ~F.col(_CONTENT).eqNullSafe(F.col(_STORED)) & ~is_older
    found = newest.withColumn(_CONTENT, _content(rows)).join(known, same_key, "left").withColumn(IS_NEW, is_new)
    return found.where(is_new | is_changed | F.col(IS_AMBIGUOUS)).select(
        *map(quote_name, rows.columns), IS_NEW, IS_AMBIGUOUS
    )


def _keep_newest(rows: DataFrame, keys: Sequence[str], cursor: str) -> DataFrame:
    """One row of each key: that with the greatest cursor, and IS_AMBIGUOUS if several have it and differ."""
    by_key = Window.partitionBy(*(F.col(quote_name(key)) for key in keys))
    newest_first = by_key.orderBy(F.col(quote_name(cursor)).desc_nulls_last())
    # Hashes only tell apart rows that the source itself gives twice; equal ones are one row.
    hashed = rows.withColumn(_HASH, hash_row(rows)).withColumn(_COPY, F.rank().over(newest_first))
    newest = hashed.where(F.col(_COPY) == 1)
    differ = F.min(_HASH).over(by_key) != F.max(_HASH).over(by_key)
    numbered = newest.withColumns({IS_AMBIGUOUS: differ, _COPY: F.row_number().over(by_key.orderBy(_HASH))})
    return numbered.where(F.col(_COPY) == 1).select(*map(quote_name, rows.columns), IS_AMBIGUOUS)


def _content(rows: DataFrame) -> Column:
    """All values of a row in a form that can be compared."""
    fields = rows.schema.fields
    return F.struct(*(comparable(F.col(quote_name(f.name)), f.dataType).alias(f"c{n}") for n, f in enumerate(fields)))
