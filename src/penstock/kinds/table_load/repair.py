"""Single rows of a load, read again by their keys: what a verification found to be wrong. One commit; the watermark stays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.databases.contract import Window
from penstock.errors import VerificationError
from penstock.kinds.table_load.columns import spelled
from penstock.kinds.table_load.job import Job
from penstock.kinds.table_load.merging import merge_rows
from penstock.kinds.table_load.origins import is_same_source
from penstock.kinds.table_load.progress import LoadProgress
from penstock.lake.statements import quote
from penstock.model.drift import Safety
from penstock.model.loads import Deletes, NullCursor, Strategy
from penstock.model.results import LoadResult
from penstock.transforms.arrow import to_frame

if TYPE_CHECKING:
    import pyarrow as pa


def repair_rows(job: Job, keys: pa.Table) -> LoadResult:
    """Fetch the rows with these keys in one moment, and merge them; keys that the source no longer has are deleted.

    `keys` has the key columns as the source spells them.
    """
    known = check_standing(job)
    with job.source.open() as moment:
        landed = job.landing.land(moment, replace(job.wanted, keys=keys, window=_window(job)), "repair")
        rows = job.read(landed.files)
        job.check(rows, landed.rows, landed.files)
        return merge_repaired(job, keys, rows, replace(known, moment=moment.taken_at))


def merge_repaired(job: Job, keys: pa.Table, rows: DataFrame, payload: LoadProgress) -> LoadResult:
    """Merge the rows with these keys, as they are in the source now."""
    gone = _gone(job, keys, rows) if _deletes(job) else None
    # The rows are those of a later moment: neither a checksum of the whole table nor its greatest cursor is known any more,
    # and the table no longer has just the rows that the mark is of.
    return merge_rows(job, rows, gone, replace(payload, checksum=None, greatest=None, mark=None))


def check_standing(job: Job) -> LoadProgress:
    """The progress, if the next load would go on from it: otherwise the rows would not fit the table."""
    work, known = job.work, job.work.state.payload
    has_drift = any(change.safety is not Safety.NOTED for change in work.column_changes)
    is_known = known is not None and is_same_source(known, work.source, work.origin)
    if known is None or has_drift or not is_known or (known.strategy, known.settings) != (work.strategy, work.settings):
        raise VerificationError(
            f"{job.name} cannot be repaired before its next load: its definition, columns or progress changed",
            hint="run `penstock run` first, then verify again",
        )
    return known


def _deletes(job: Job) -> bool:
    """Whether a row that the source no longer has may be deleted: a timestamp load can be told to keep it."""
    return job.work.strategy is not Strategy.TIMESTAMP or job.work.options.deletes is not Deletes.IGNORE


def _window(job: Job) -> Window | None:
    """Only rows with a cursor, where the others are left out and removed; otherwise they are brought up to date."""
    options = job.work.options
    if options.cursor is None or options.null_cursor is not NullCursor.SKIP or not _deletes(job):
        return None
    return Window(spelled(job.look.columns, options.cursor))


def _gone(job: Job, keys: pa.Table, rows: DataFrame) -> DataFrame:
    types = {column.name: column.type for column in job.columns}
    wanted = to_frame(job.lake.session, keys).select(
        *(F.col(quote(spelled(job.look.columns, key))).cast(types[key]).alias(key) for key in job.keys)
    )
    return wanted.join(rows.select(*map(quote, job.keys)), list(job.keys), "left_anti")
