"""The delete check: keys alone are read, and compared with the table's. Nothing is deleted on doubt."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.databases.contract import Moment
from penstock.errors import VerificationError
from penstock.faults import fault_point
from penstock.kinds.table_load.columns import spelled
from penstock.kinds.table_load.job import Job
from penstock.lake.statements import quote
from penstock.model.loads import DELETED_AT, NullCursor
from penstock.transforms.conform import conform_field


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """What a delete check found."""

    gone: DataFrame | None
    """Keys that the table has and the source does not; None when there are none."""
    returned: DataFrame | None
    """Whole rows of the source whose keys the table lacks, whatever their cursor; None when there are none."""
    count: int = 0


def check_deletes(job: Job, moment: Moment, new: DataFrame) -> Checked:
    """Compare the keys of the source, in this moment, with those of the table; `new` are rows that are merged anyway."""
    landed = job.landing.land(moment, job.wanted_keys, "keys")
    fault_point("load.after_keys", str(job.name))
    keys = _read_keys(job, landed.files)
    live = live_keys(job)
    gone = live.join(keys, list(job.keys), "left_anti")
    wanted = keys.where(_is_loaded(job, keys)) if job.work.options.cursor else keys
    lacking = wanted.select(*map(quote, job.keys)).join(live, list(job.keys), "left_anti")
    lacking = lacking.join(new.select(*map(quote, job.keys)), list(job.keys), "left_anti")
    count = gone.count()
    check_share(job, landed.rows, live.count() if count else 0, count)
    return Checked(gone if count else None, fetch_rows(job, moment, lacking), count)


def live_keys(job: Job) -> DataFrame:
    """The keys of rows that are not deleted."""
    rows = job.lake.read(job.name)
    if DELETED_AT in rows.columns:
        rows = rows.where(F.col(DELETED_AT).isNull())
    return rows.select(*map(quote, job.keys))


def check_share(job: Job, rows: int, before: int, gone: int) -> None:
    """VerificationError when the source has lost too many rows for that to be believed."""
    options = job.work.options
    if not gone or (rows == 0 and options.allow_empty):
        return
    if rows == 0 or gone / before > options.most_deleted:
        what = "no rows at all" if rows == 0 else f"{gone} of {before} rows fewer"
        raise VerificationError(
            f"{job.name}: {job.work.shown} has {what}, which is more than a load may delete; nothing was written",
            hint="if that is right, raise most_deleted, or set allow_empty for an empty source",
        )


def _read_keys(job: Job, files: tuple[str, ...]) -> DataFrame:
    """Landed keys with the types of the table; the cursor as it is."""
    rows = job.read_as_landed(files)
    types = {column.name: column.type for column in job.columns}
    keys = [conform_field(rows.schema.fields, key, types[key]) for key in job.keys]
    cursor = job.work.options.cursor
    known = {key.lower() for key in job.keys}
    others = [F.col(quote(name)) for name in rows.columns if cursor and name.lower() == cursor.lower()]
    return rows.select(*keys, *(other for other in others if cursor and cursor.lower() not in known))


def _is_loaded(job: Job, keys: DataFrame) -> Column:
    """Whether a row belongs in the table: with `null_cursor: skip`, rows without a cursor do not."""
    options = job.work.options
    if options.null_cursor is not NullCursor.SKIP or options.cursor is None:
        return F.lit(True)
    name = next(name for name in keys.columns if name.lower() == options.cursor.lower())
    return F.col(quote(name)).isNotNull()


def fetch_rows(job: Job, moment: Moment, lacking: DataFrame) -> DataFrame | None:
    """The rows of keys that the table lacks."""
    names = {key: spelled(job.look.columns, key) for key in job.keys}
    wanted = lacking.select(*(F.col(quote(key)).alias(name) for key, name in names.items()))
    keys = wanted.toArrow()
    if not keys.num_rows:
        return None
    landed = job.landing.land(moment, replace(job.wanted, keys=keys), "returned")
    rows = job.read(landed.files)
    job.check(rows, landed.rows, landed.files)
    return rows
