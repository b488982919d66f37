"""Removing duplicates of declared keys: of several rows with the same key, the last one stays, whatever file it came with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.errors import ConfigError, VerificationError
from penstock.faults import fault_point, is_armed
from penstock.lake.statements import quote
from penstock.lake.tables import Lake
from penstock.maintenance.tables.purge import add_up
from penstock.maintenance.tables.values import Checksum
from penstock.maintenance.tables.watch import Watch
from penstock.model.compaction import Policy
from penstock.model.nearest import did_you_mean
from penstock.model.progress import Manifest
from penstock.model.types import quote_name
from penstock.transforms.checksums import hash_row

_RANK = "__penstock_rank"


def remove_duplicates(
    lake: Lake, watch: Watch, policy: Policy, standing: Manifest | None, build_request_id: str
) -> int:
    """Remove all rows of a key but the last, in one commit; rows with NULL in a part of the key have no key, and stay.

    The number of rows removed. VerificationError when another row was lost or changed, and the table is what it was before.
    """
    name = watch.name
    rows = lake.session.read.format("delta").option("versionAsOf", watch.version).load(lake.files.spark_path(name.path))
    keys, by = (_find_columns(rows, watch, policy, names) for names in (policy.keys, policy.keep_last_by))
    if lake.has_change_feed(name):
        raise ConfigError(
            f"duplicates of {name} cannot be removed: readers of its change data feed would take them for deletes",
            hint="remove `keys` from its compaction policy, or switch the feed off",
            location=policy.location,
        )
    doubled = _find_doubled(rows, keys)
    if doubled.isEmpty():
        return 0
    ranked = _rank(rows, doubled, keys, by)
    last, others = (ranked.where(each).drop(_RANK) for each in (F.col(_RANK) == 1, F.col(_RANK) > 1))
    before, gone = add_up(rows), add_up(others)
    begun = lake.begin_again(name, build_request_id)
    watch.pass_fences()
    fault_point("compact.before_duplicates", str(name))
    watch.check()
    source, condition, new = _to_source(last, doubled, keys)
    watch.note(lake.exchange(source, condition, name, begun.number, new))
    fault_point("compact.after_duplicates", str(name))
    expected = Checksum(before.rows - gone.rows, before.total - gone.total, before.mixed ^ gone.mixed)
    _verify(lake, watch, expected, standing, build_request_id)
    return gone.rows


def _find_columns(rows: DataFrame, watch: Watch, policy: Policy, names: Sequence[str]) -> list[str]:
    """The declared columns as the table spells them."""
    known = {field.name.lower(): field for field in rows.schema.fields}
    found = []
    for name in names:
        field = known.get(name.lower())
        if field is None:
            raise ConfigError(
                f"{watch.name} has no column {name}{did_you_mean(name, known)}; nothing was changed",
                hint="correct `keys` and `keep_last_by` of its compaction policy",
                location=policy.location,
            )
        if isinstance(field.dataType, T.MapType | T.VariantType):
            raise ConfigError(
                f"{watch.name}.{name} cannot be compared: it is a {field.dataType.typeName()}; nothing was changed",
                location=policy.location,
            )
        found.append(field.name)
    return found


def _find_doubled(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The keys that several rows have, as columns k0, k1 and so on."""
    columns = [F.col(quote_name(key)) for key in keys]
    known = rows.where(reduce(and_, (column.isNotNull() for column in columns)))
    groups = known.groupBy(*(column.alias(f"k{place}") for place, column in enumerate(columns)))
    return groups.agg(F.count(F.lit(1)).alias("rows")).where("rows > 1").drop("rows")


def _rank(rows: DataFrame, doubled: DataFrame, keys: Sequence[str], by: Sequence[str]) -> DataFrame:
    """The rows of these keys, the last of each with rank 1.

    A tie must not be decided by the order of files, or a rebuild would keep another row: so it is decided by the rows.
    """
    columns = [F.col(quote_name(key)) for key in keys]
    same = reduce(and_, (F.col(f"t.{quote_name(key)}") == F.col(f"s.k{place}") for place, key in enumerate(keys)))
    order = [F.col(quote_name(column)).desc_nulls_last() for column in by]
    window = Window.partitionBy(*columns).orderBy(*order, hash_row(rows).desc())
    found = rows.alias("t").join(doubled.alias("s"), same, "left_semi")
    return found.withColumn(_RANK, F.row_number().over(window))


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
