"""Loading a Delta table of somebody else: one version of it is read as it is, so nothing needs to be landed."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.errors import SourceError
from penstock.kinds.table_load.delta_source import look_at_delta, open_place, show_delta
from penstock.kinds.table_load.full_refresh import replace_table
from penstock.kinds.table_load.job import Job
from penstock.kinds.table_load.snapshot import apply_snapshot
from penstock.lake.delta_log import find_version
from penstock.lake.statements import quote
from penstock.model.loads import DeltaSource, Strategy
from penstock.model.plan import Action
from penstock.model.results import LoadResult
from penstock.transforms.conform import conform_field


def load_delta(job: Job, action: Action) -> LoadResult:
    """Read the newest version, check it, and refresh the table or apply the differences."""
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
    count = stored.count()
    job.check(rows, count)
    job.check_not_empty(count)
    moment = datetime.now(UTC).isoformat()
    payload = job.progress_at(moment, look.stamp)
    if job.work.strategy is Strategy.SNAPSHOT:
        return apply_snapshot(job, rows, payload, action)
    return replace_table(job, rows, payload)
