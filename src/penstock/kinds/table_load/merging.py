"""Merging rows into the table by key, in one commit. Unchanged rows are not written again."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.errors import SourceError
from penstock.faults import fault_point
from penstock.kinds.table_load.full_refresh import written
from penstock.kinds.table_load.job import Job
from penstock.kinds.table_load.progress import LoadProgress
from penstock.lake.statements import quote
from penstock.model.changes import END_AT, START_AT
from penstock.model.loads import DELETED_AT, Deletes
from penstock.model.results import LoadResult
from penstock.model.types import has_map, parse_type

AT, IS_GONE = "__penstock_at", "__penstock_gone"
_OWN = (AT, IS_GONE)


def merge_rows(
    job: Job, rows: DataFrame, gone: DataFrame | None, payload: LoadProgress, *, is_changed: bool = False
) -> LoadResult:
    """Write rows by key, which have been landed; the keys in `gone` are deleted, softly or not. All of it is one commit.

    With `is_changed`, no row is what the table has. Then the table's other columns need not be read to compare them.
    """
    screen = job.screen()
    changes = job.storable(screen.drop(rows))
    if gone is not None:
        changes = changes.withColumns(_marks(payload, is_gone=False))
        keys = gone.select(*map(quote, job.keys)).withColumns(_marks(payload, is_gone=True))
        changes = changes.unionByName(keys, allowMissingColumns=True)
    fault_point("load.before_attempt", str(job.name))
    begun = job.begin_append(payload)
    suppressed = job.keep_aside(rows, screen, begun.number, is_all=False)
    fault_point("load.before_commit", str(job.name))
    clauses = merge_clauses(job, removes=gone is not None, compares=not is_changed)
    # Landed files and a version of another table are stable. What is gone is found by a comparison, which is made once.
    commit = job.lake.merge_into(changes, same_keys(job.keys), job.name, begun.number, clauses, is_stable=gone is None)
    fault_point("load.after_commit", str(job.name))
    deleted = int(commit.metrics.get("numTargetRowsDeleted", 0))
    return LoadResult(commit.version, written(commit) + deleted, suppressed=suppressed)


def _marks(payload: LoadProgress, *, is_gone: bool) -> dict[str, Column]:
    return {AT: F.lit(payload.moment).cast("timestamp"), IS_GONE: F.lit(is_gone)}


def same_keys(keys: Sequence[str]) -> str:
    """The condition of a merge by key; keys are never NULL."""
    return " AND ".join(f"t.{quote(key)} = s.{quote(key)}" for key in keys)


def merge_clauses(job: Job, *, removes: bool, compares: bool) -> str:
    """What happens to a row that is gone, to one that differs, and to one that is new."""
    names = [column.name for column in job.columns]
    is_soft = any(column.name == DELETED_AT for column in job.schema.columns)
    differs = " OR ".join(differences(job) + ([f"t.{DELETED_AT} IS NOT NULL"] if is_soft else [])) or "FALSE"
    values = [f"t.{quote(column.name)} = s.{quote(column.name)}" for column in job.present]
    values += [f"t.{DELETED_AT} = NULL"] if is_soft else []
    keeps = is_soft and job.work.options.deletes is Deletes.SOFT
    remove = f"AND t.{DELETED_AT} IS NULL THEN UPDATE SET t.{DELETED_AT} = s.{AT}" if keeps else "THEN DELETE"
    stays = f"AND NOT s.{IS_GONE} " if removes else ""
    into, of = (", ".join(f"{prefix}{quote(name)}" for name in names) for prefix in ("", "s."))
    update = f"WHEN MATCHED {stays}{f'AND ({differs}) ' if compares else ''}THEN UPDATE SET {', '.join(values)} "
    insert = f"WHEN NOT MATCHED {stays}THEN INSERT ({into}) VALUES ({of})"  # noqa: S608 - every name is quoted
    return (f"WHEN MATCHED AND s.{IS_GONE} {remove} " if removes else "") + update + insert


def differences(job: Job) -> list[str]:
    """Conditions that a row of the source differs from the table's, NULL included, for each column that is no key.

    A column that the source no longer has says nothing: it would differ in every row that has a value.
    """
    keys = set(job.keys)
    found = []
    for column in job.present:
        if has_map(parse_type(column.type)):
            raise SourceError(
                f"{job.name}: column {column.name} is a map, which cannot be compared",
                hint="leave it out with columns=, or use strategy full_refresh",
            )
        if column.name not in keys:
            found.append(f"NOT (t.{quote(column.name)} <=> s.{quote(column.name)})")
    return found


def merge_history(job: Job, rows: DataFrame, payload: LoadProgress) -> LoadResult | None:
    """Compare a snapshot with the current rows of an SCD2 table: changed and missing ones end, new ones start. None if equal."""
    names = [column.name for column in job.columns]
    current = job.lake.read(job.name).where(F.col(END_AT).isNull()).select(*map(quote, names))
    screen = job.screen()
    kept = screen.drop(rows).select(*map(quote, names))
    new = kept.alias("s").join(current.alias("t"), F.expr(_same_rows(job)), "left_anti")
    ended = current.alias("t").join(kept.alias("s"), F.expr(_same_rows(job)), "left_anti")
    changes = ended.select(*map(quote, job.keys)).withColumns(_marks(payload, is_gone=True))
    changes = new.withColumns(_marks(payload, is_gone=False)).unionByName(changes, allowMissingColumns=True)
    changes = changes.persist()
    try:
        if changes.isEmpty():
            return None
        fault_point("load.before_attempt", str(job.name))
        begun = job.begin_append(payload)
        fault_point("load.before_commit", str(job.name))
        condition = f"{same_keys(job.keys)} AND t.{END_AT} IS NULL AND s.{IS_GONE}"
        into = ", ".join([*map(quote, names), START_AT])
        values = ", ".join([*(f"s.{quote(name)}" for name in names), f"s.{AT}"])
        clauses = (  # every name is quoted
            f"WHEN MATCHED THEN UPDATE SET t.{END_AT} = s.{AT} "  # noqa: S608
            f"WHEN NOT MATCHED AND NOT s.{IS_GONE} THEN INSERT ({into}) VALUES ({values})"
        )
        commit = job.lake.merge_into(job.storable(changes), condition, job.name, begun.number, clauses)
    finally:
        changes.unpersist()
    fault_point("load.after_commit", str(job.name))
    return LoadResult(commit.version, written(commit), suppressed=int(screen.keep(rows).count()) if screen else 0)


def _same_rows(job: Job) -> str:
    """Whether two rows have the same key and the same values, NULL included."""
    equal = [condition.removeprefix("NOT ") for condition in differences(job)]
    return " AND ".join([same_keys(job.keys), *equal])
