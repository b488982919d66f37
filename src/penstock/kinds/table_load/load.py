"""Executing loads: reads a source by its strategy and commits the rows with the progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from penstock.databases.contract import SourceTable
from penstock.databases.passwords import with_password
from penstock.errors import SourceError, located
from penstock.faults import fault_point
from penstock.kinds.table_load.decide import LoadItem, decide
from penstock.kinds.table_load.delta_load import load_delta, repair_from_delta
from penstock.kinds.table_load.full_refresh import refresh
from penstock.kinds.table_load.job import Job
from penstock.kinds.table_load.landing import remove_left_over
from penstock.kinds.table_load.repair import repair_rows
from penstock.kinds.table_load.snapshot import load_snapshot
from penstock.kinds.table_load.sources import opened
from penstock.kinds.table_load.spark_source import SparkTable
from penstock.kinds.table_load.timestamp import load_by_cursor
from penstock.kinds.table_load.values import LoadObservation
from penstock.lake.tables import Lake
from penstock.model.loads import DeltaSource, JdbcSource, Strategy
from penstock.model.plan import Action, Wishes
from penstock.model.results import LoadResult
from penstock.tombstones.suppression import Suppression

if TYPE_CHECKING:
    import pyarrow as pa

_ATTEMPTS = 3
_LONGEST_WAIT = 5


@dataclass(frozen=True, slots=True)
class TableLoad:
    """Loads tables of other systems."""

    lake: Lake
    build_request_id: str
    suppression: Suppression = field(default_factory=Suppression)
    configuration: Mapping[str, str] = field(default_factory=dict, repr=False)

    def load(self, item: LoadItem) -> LoadResult:
        """Execute the item; a source that is gone for a moment is asked again, since nothing is written before the commit."""
        name = item.dataset
        fault_point("load.begin", str(name))
        remove_left_over(self.lake.files, name, keep_first=item.action is Action.REBUILD)
        retrying = Retrying(
            retry=retry_if_exception(_is_transient),
            wait=wait_random_exponential(multiplier=0.5, max=_LONGEST_WAIT),
            stop=stop_after_attempt(_ATTEMPTS),
            reraise=True,
        )
        with located(item.work.spec.location):
            result = retrying(self._try_to_load, item)
        fault_point("load.before_tidy", str(name))
        remove_left_over(self.lake.files, name, keep_first=False)
        return result

    def repair(self, item: LoadItem, keys: pa.Table) -> LoadResult:
        """Make the rows with these keys what they are in the source now."""
        with located(item.work.spec.location):
            if isinstance(item.work.options.source, DeltaSource):
                return repair_from_delta(self._to_job(item, None), keys)
            with opened(item.work.options) as table:
                job = self._to_job(item, table)
                job.check_unchanged(table.look())
                try:
                    return repair_rows(job, keys)
                finally:
                    remove_left_over(self.lake.files, item.dataset, keep_first=True)

    def close(self) -> None:
        """The loader keeps nothing in the session."""

    def _try_to_load(self, item: LoadItem) -> LoadResult:
        work = item.work
        if isinstance(work.options.source, DeltaSource):
            return load_delta(self._to_job(item, None), item.action)
        with opened(work.options) as table:
            if not table.is_observable:
                return self._load_unasked(item, table)
            job = self._to_job(item, table)
            job.check_unchanged(table.look())
            return _load(job, item.action)

    def _load_unasked(self, item: LoadItem, table: SourceTable) -> LoadResult:
        """A source that only Spark can ask: what the plan could not decide is decided now, by the same rules."""
        work = item.work
        if not isinstance(work.options.source, JdbcSource):
            raise TypeError(f"{work.shown} has no JDBC driver")
        source = with_password(work.options.source)
        asked = SparkTable(self.lake.session, source, table.shown, work.options.where, self.configuration)
        given = LoadObservation(
            work.spec, work.options, work.state, table.shown, work.source, datetime.now(UTC), work.choice, asked.look()
        )
        is_reload = item.action is Action.REBUILD and work.state.exists
        wishes = Wishes(full_refresh=is_reload, may_lose_history=item.action is Action.REBUILD)
        (decided,) = decide(given, wishes)
        if decided.problem is not None:
            raise decided.problem.to_error()
        job = self._to_job(replace(decided, work=replace(decided.work, checks_deletes=work.checks_deletes)), asked)
        return _load(job, decided.action)

    def _to_job(self, item: LoadItem, table: SourceTable | None) -> Job:
        work = item.work
        if work.look is None or work.schema is None:
            raise ValueError(f"{item.dataset} was not looked at")
        return Job(
            self.lake,
            work,
            self.build_request_id,
            self.suppression,
            table,
            work.look,
            work.schema,
            self.configuration,
        )


def _load(job: Job, action: Action) -> LoadResult:
    match job.work.strategy:
        case Strategy.TIMESTAMP:
            return load_by_cursor(job, action)
        case Strategy.SNAPSHOT:
            return load_snapshot(job, action)
    return refresh(job)


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, SourceError) and error.retryable
