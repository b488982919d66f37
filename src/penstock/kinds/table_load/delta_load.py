"""Loading a Delta table of somebody else: one version of it is read as it is, so nothing needs to be landed."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.databases.contract import Look
from penstock.errors import SourceError
from penstock.kinds.table_load.columns import spelled
from penstock.kinds.table_load.deletes import check_share, live_keys
from penstock.kinds.table_load.delta_source import look_at_delta, open_place, show_delta
from penstock.kinds.table_load.full_refresh import replace_table
from penstock.kinds.table_load.job import Job
from penstock.kinds.table_load.merging import merge_rows
from penstock.kinds.table_load.progress import LoadProgress
from penstock.kinds.table_load.repair import check_standing, merge_repaired
from penstock.kinds.table_load.snapshot import apply_snapshot
from penstock.lake.delta_log import find_version, iter_commits
from penstock.lake.statements import quote
from penstock.model.loads import Deletes, DeltaSource, Strategy
from penstock.model.plan import Action
from penstock.model.results import LoadResult
from penstock.storage.files import Files
from penstock.transforms.arrow import to_frame
from penstock.transforms.conform import conform_field

if TYPE_CHECKING:
    import pyarrow as pa


def load_delta(job: Job, action: Action) -> LoadResult:
    """Read the newest version, check it, and refresh the table or apply the differences."""
    rows, place, look = _read_newest(job)
    count = rows.count()
    job.check(rows, count)
    job.check_not_empty(count)
    moment = datetime.now(UTC).isoformat()
    payload = job.progress_at(moment, look.stamp)
    if job.work.strategy is not Strategy.SNAPSHOT:
        return replace_table(job, rows, payload)
    changed = _find_changed_keys(job, *place) if action is Action.APPLY else None
    if changed is None:
        return apply_snapshot(job, rows, payload, action)
    return _apply_changed(job, rows, changed, payload)


def _read_newest(job: Job) -> tuple[DataFrame, tuple[Files, str, int], Look]:
    """The rows of the newest version with the types of the table, where that is, and how it looked before."""
    source = job.work.options.source
    if not isinstance(source, DeltaSource):
        raise TypeError(f"{job.name} is not loaded from a Delta table")
    look = look_at_delta(source, job.configuration)  # before the version, so that a later commit is seen next time
    job.check_unchanged(look)
    files, name = open_place(source, job.configuration)
    version = find_version(files, name)
    if version is None:
        raise SourceError(f"{show_delta(source)} does not exist", hint="check the path of the load")
    reader = job.lake.session.read.format("delta").option("versionAsOf", version)
    stored = reader.load(files.spark_path(name)).select(*map(quote, job.wanted.columns))
    rows = stored.select(*(conform_field(stored.schema.fields, c.name, c.type) for c in job.columns))
    return rows, (files, name, version), look


def repair_from_delta(job: Job, keys: pa.Table) -> LoadResult:
    """Make the rows with these keys what they are in the source's newest version."""
    known = check_standing(job)
    rows = _read_newest(job)[0]
    wanted = to_frame(job.lake.session, keys)
    names = {key: spelled(job.look.columns, key) for key in job.keys}
    wanted = wanted.select(*(F.col(quote(name)).cast(_type_of(job, key)).alias(key) for key, name in names.items()))
    chosen = rows.join(F.broadcast(wanted), list(job.keys), "left_semi").select(*map(quote, rows.columns))
    job.check(chosen, chosen.count())
    return merge_repaired(job, keys, chosen, replace(known, moment=datetime.now(UTC).isoformat()))


def _find_changed_keys(job: Job, files: Files, name: str, version: int) -> DataFrame | None:
    """The keys of rows that changed since the version that was read, from the Delta change data feed; None if it cannot tell."""
    known = job.work.state.payload
    read = re.fullmatch(r"(\d+) at (\d+)", known.stamp or "") if known else None
    if read is None or job.work.options.scd_type == 2 or job.work.column_changes:
        return None
    since = int(read[1])
    if not any((c.version, c.timestamp_ms) == (since, int(read[2])) for c in iter_commits(files, name)):
        return None  # the table was created again, or its log was cleaned
    reader = job.lake.session.read.format("delta").option("readChangeFeed", "true")
    reader = reader.option("startingVersion", since + 1).option("endingVersion", version)
    try:
        changes = reader.load(files.spark_path(name))
        keys = changes.select(*(conform_field(changes.schema.fields, k, _type_of(job, k)) for k in job.keys)).distinct()
        keys.isEmpty()
    except Exception:  # noqa: BLE001 - without a feed for all of these versions, everything is compared
        return None
    return keys


def _type_of(job: Job, key: str) -> str:
    return next(column.type for column in job.columns if column.name == key)


def _apply_changed(job: Job, rows: DataFrame, changed: DataFrame, payload: LoadProgress) -> LoadResult:
    """Apply the rows of keys that changed; everything else is as it was."""
    keys = list(job.keys)
    found = rows.join(changed, keys, "left_semi").select(*(F.col(quote(column)) for column in rows.columns))
    gone = None
    if job.work.options.deletes is not Deletes.IGNORE:
        live = live_keys(job)
        gone = live.join(changed, keys, "left_semi").join(rows.select(*map(quote, keys)), keys, "left_anti")
        count = gone.count()
        check_share(job, 0 if rows.isEmpty() else 1, live.count() if count else 0, count)
    return merge_rows(job, found, gone, payload)
