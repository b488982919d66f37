"""Snapshots: all rows, compared with the table by key and content; only the differences are written."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.kinds.table_load.deletes import check_share, live_keys
from penstock.kinds.table_load.full_refresh import land_all, write_table
from penstock.kinds.table_load.job import Job
from penstock.kinds.table_load.merging import merge_history, merge_rows
from penstock.kinds.table_load.progress import LoadProgress
from penstock.lake.statements import quote
from penstock.model.changes import END_AT, START_AT
from penstock.model.loads import DELETED_AT, Deletes
from penstock.model.plan import Action
from penstock.model.results import LoadResult


def load_snapshot(job: Job, action: Action) -> LoadResult:
    """Compare the source with the table, and apply the differences."""
    with job.source.open() as moment:
        rows = land_all(job, moment)
        payload = replace(job.progress(moment), checked_at=moment.taken_at)
        return apply_snapshot(job, rows, payload, action)


def apply_snapshot(job: Job, rows: DataFrame, payload: LoadProgress, action: Action) -> LoadResult:
    """Apply the rows of a snapshot, which are checked; a first one is the table."""
    payload = _in_order(job, payload)
    if action is Action.REBUILD:
        return write_table(job, _as_first(job, rows, payload), job.screen(), payload)
    job = job.evolve()
    gone = _find_gone(job, rows)
    if job.work.options.scd_type == 2:
        return merge_history(job, rows, payload) or job.restate(payload)
    return merge_rows(job, rows, gone if job.work.options.deletes is not Deletes.IGNORE else None, payload)


def _as_first(job: Job, rows: DataFrame, payload: LoadProgress) -> DataFrame:
    """The rows with the columns that a load adds."""
    values = {
        START_AT: F.lit(payload.moment).cast("timestamp"),
        END_AT: F.lit(None).cast("timestamp"),
        DELETED_AT: F.lit(None).cast("timestamp"),
    }
    own = {column.name: values[column.name] for column in job.schema.columns if column.name in values}
    return rows.withColumns(own) if own else rows


def _find_gone(job: Job, rows: DataFrame) -> DataFrame | None:
    """Keys that the table has and the snapshot does not; refused when there are too many."""
    keys = list(job.keys)
    live = _open_keys(job) if job.work.options.scd_type == 2 else live_keys(job)
    gone = live.join(rows.select(*map(quote, keys)), keys, "left_anti")
    if job.work.options.deletes is Deletes.IGNORE and job.work.options.scd_type == 1:
        return None
    count = gone.count()
    check_share(job, 0 if rows.isEmpty() else 1, live.count() if count else 0, count)
    return gone if count else None


def _open_keys(job: Job) -> DataFrame:
    return job.lake.read(job.name).where(F.col(END_AT).isNull()).select(*map(quote, job.keys))


def _in_order(job: Job, payload: LoadProgress) -> LoadProgress:
    """The progress with a moment after that of the last snapshot, also when the source's clock was set back."""
    known = job.work.state.payload
    if known is None or known.moment is None or payload.moment is None:
        return payload
    last, now = datetime.fromisoformat(known.moment), datetime.fromisoformat(payload.moment)
    if now > last:
        return payload
    moment = (last + timedelta(microseconds=1)).isoformat()
    return replace(payload, moment=moment)
