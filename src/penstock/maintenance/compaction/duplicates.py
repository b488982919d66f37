"""Removing duplicates of declared keys: of several rows with the same key, the last one stays, whatever file it came with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.errors import ConfigError, VerificationError
from penstock.faults import fault_point, is_armed
from penstock.lake.statements import quote
from penstock.lake.tables import Lake
from penstock.maintenance.tables.purge import add_up
from penstock.maintenance.tables.values import Checksum
from penstock.maintenance.tables.watch import Watch
from penstock.model.compaction import Policy
from penstock.model.progress import Manifest
from penstock.model.types import quote_name
from penstock.transforms.duplicates import RANK, DeclaredKey, count_by_key, find_declared_key, rank_rows


def remove_duplicates(
    lake: Lake, watch: Watch, policy: Policy, standing: Manifest | None, build_request_id: str
) -> int:
    """Remove all rows of a key but the last, in one commit; rows with NULL in a part of the key have no key, and stay.

    The number of rows removed. VerificationError when another row was lost or changed, and the table is what it was before.
    """
    name = watch.name
    rows = lake.session.read.format("delta").option("versionAsOf", watch.version).load(lake.files.spark_path(name.path))
    key = find_declared_key(rows, name, policy)
    if lake.has_change_feed(name):
        raise ConfigError(
            f"duplicates of {name} cannot be removed: readers of its change data feed would take them for deletes",
            hint="remove `keys` from its compaction policy, or switch the feed off",
            location=policy.location,
        )
    doubled = count_by_key(rows, key).where("rows > 1").drop("rows")
    if doubled.isEmpty():
        return 0
    ranked = _rank(rows, doubled, key)
    last, others = (ranked.where(each).drop(RANK) for each in (F.col(RANK) == 1, F.col(RANK) > 1))
    before, gone = add_up(rows), add_up(others)
    begun = lake.begin_again(name, build_request_id)
    watch.pass_fences()
    fault_point("compact.before_duplicates", str(name))
    watch.check()
    source, condition, new = _to_source(last, doubled, key.names)
    watch.note(lake.exchange(source, condition, name, begun.number, new))
    fault_point("compact.after_duplicates", str(name))
    expected = Checksum(before.rows - gone.rows, before.total - gone.total, before.mixed ^ gone.mixed)
    _verify(lake, watch, expected, standing, build_request_id)
    return gone.rows


def _rank(rows: DataFrame, doubled: DataFrame, key: DeclaredKey) -> DataFrame:
    """The rows of these keys, the last of each with rank 1."""
    same = reduce(and_, (F.col(f"t.{quote_name(name)}") == F.col(f"s.k{n}") for n, name in enumerate(key.names)))
    return rank_rows(rows.alias("t").join(doubled.alias("s"), same, "left_semi"), key)


def _to_source(last: DataFrame, doubled: DataFrame, keys: Sequence[str]) -> tuple[DataFrame, str, str]:
    """What a MERGE needs to remove every row of some keys and write the last of each again; equal rows have no other identity."""
    columns = [F.col(quote_name(column)).alias(f"c{place}") for place, column in enumerate(last.columns)]
    new = last.select(*columns, F.lit(True).alias("is_new"))
    source = doubled.withColumn("is_new", F.lit(False)).unionByName(new, allowMissingColumns=True)
    same = " AND ".join(f"t.{quote(key)} = s.k{place}" for place, key in enumerate(keys))
    named = ", ".join(map(quote, last.columns))
    values = ", ".join(f"s.c{place}" for place in range(len(last.columns)))
    clause = f"WHEN NOT MATCHED AND s.is_new THEN INSERT ({named}) VALUES ({values})"  # noqa: S608
    return source, f"NOT s.is_new AND {same}", clause


def _verify(lake: Lake, watch: Watch, expected: Checksum, standing: Manifest | None, build_request_id: str) -> None:
    found = add_up(lake.read(watch.name))
    if found == expected and not is_armed("purge.unequal"):
        return
    watch.check()
    lake.restore(watch.name, watch.version - 1)
    if standing is not None:
        lake.restate(watch.name, standing, build_request_id)
    raise VerificationError(
        f"{watch.name}: without duplicates its rows should be {expected}, but they are {found}; it is what it was before",
        hint="keep a copy of the table's folder and report this",
    )
