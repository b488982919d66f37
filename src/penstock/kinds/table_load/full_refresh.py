"""Full refresh: all rows, landed once in one moment, checked, and put in the place of the table in one commit."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from penstock.databases.contract import Moment
from penstock.faults import fault_point
from penstock.kinds.table_load.job import Job
from penstock.kinds.table_load.landing import plan_chunks, total
from penstock.kinds.table_load.progress import LoadProgress
from penstock.lake.delta_log import Commit
from penstock.model.results import LoadResult
from penstock.transforms.checksums import add_up_rows
from penstock.transforms.suppress import Screen


def refresh(job: Job) -> LoadResult:
    """Replace the table by the rows of the source; the same rows make no commit."""
    with job.source.open() as moment:
        rows = land_all(job, moment)
        return replace_table(job, rows, job.progress(moment))


def land_all(job: Job, moment: Moment) -> DataFrame:
    """All rows of the source, landed and checked."""
    wanted = job.wanted
    chunks = plan_chunks(job.source, moment, wanted, job.look, job.work.options)
    landed = total(tuple(job.landing.land_chunks(moment, wanted, chunks).values()))
    expected = moment.count(wanted)
    fault_point("load.after_land", str(job.name))
    rows = job.read(landed.files)
    job.check(rows, expected, landed.files)
    job.check_not_empty(expected)
    return rows


def replace_table(job: Job, rows: DataFrame, progress: LoadProgress) -> LoadResult:
    """Put these rows in the place of the table, unless they are what it has."""
    screen = job.screen()
    kept = screen.drop(rows)
    checksum = _add_up(kept)
    payload = replace(progress, checksum=checksum)
    state = job.work.state
    known = state.payload
    if (
        known is not None
        and known.checksum == checksum
        and state.schema == job.schema
        and known.settings == payload.settings
    ):
        return job.restate(payload)
    return write_table(job, rows, screen, payload)


def write_table(job: Job, rows: DataFrame, screen: Screen, payload: LoadProgress) -> LoadResult:
    """Replace the table in one commit; readers see the old rows until then."""
    fault_point("load.before_attempt", str(job.name))
    begun = job.lake.begin(job.manifest(payload), job.name)
    suppressed = job.keep_aside(rows, screen, begun.number, is_all=True)
    fault_point("load.before_commit", str(job.name))
    commit = job.lake.replace(screen.drop(rows), job.name, begun.number, job.layout)
    fault_point("load.after_commit", str(job.name))
    return LoadResult(commit.version, written(commit), suppressed=suppressed)


def written(commit: Commit) -> int:
    """How many rows a commit wrote."""
    metrics = commit.metrics
    if "numTargetRowsInserted" in metrics:
        return int(metrics["numTargetRowsInserted"]) + int(metrics.get("numTargetRowsUpdated", 0))
    return int(metrics.get("numOutputRows", 0))


def _add_up(rows: DataFrame) -> str:
    found = add_up_rows(rows).collect()[0]
    return f"{found['rows']}:{found['total']}:{found['mixed']}"
