"""Executing plans on Spark: a session that is opened when there is work, and the loaders of each kind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.definitions.active_project import project_code
from penstock.definitions.project_modules import loaded_project_modules
from penstock.definitions.user_code import describe
from penstock.errors import CancelledError, PenstockError
from penstock.kinds.catalog import find_kind
from penstock.kinds.protocol import Kind, Loader, PipelineRun, Workspace
from penstock.lake.naming import use_database
from penstock.lake.own_commits import find_own_commit
from penstock.lake.planned_lake import PlannedLake
from penstock.lake.registering import Registrar
from penstock.lake.stored_files import stored_files_named
from penstock.lake.tables import Lake
from penstock.model.jobs import JobPolicy
from penstock.model.loads import find_drivers
from penstock.model.plan import Item, Plan
from penstock.model.results import ItemResult, LoadResult
from penstock.model.wording import counted
from penstock.run.analyzing import analyze_plan
from penstock.run.cancelling import CancelWatch
from penstock.run.claiming import Begun, Claiming
from penstock.run.claims.heartbeats import Heartbeats
from penstock.run.dispatch import Limits, RetryRule
from penstock.run.failures import FailureLimit
from penstock.run.job_logs import JobLog, JobLogs
from penstock.run.listeners import RunListener
from penstock.run.ownership import check_log, take_ownership
from penstock.run.partition_runs import add_up, load_item
from penstock.run.planned_runs import PlannedRun
from penstock.run.scheduler import Scheduler
from penstock.run.stopping import Hooks
from penstock.session.jobs import JobSession, JobSessions
from penstock.session.losses import best_effort, loss_of_session_named
from penstock.session.opening import carry_by_value, open_session
from penstock.session.settings import SessionRequest
from penstock.session.siblings import sibling_of, stay_in_background
from penstock.tombstones.suppression import read_suppression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT_BYTES = 64_000_000
"""With fewer bytes of source data, a pipeline run ends before the JVM's optimizing compiler pays off."""


@dataclass(slots=True)
class Executor:
    """Executes plans of one project on one session, until it is closed."""

    workspace: Workspace
    kinds: tuple[Kind, ...]
    is_long_lived: bool = False
    """More pipeline runs will use the same session, so that the JVM's optimizing compiler pays off."""
    _session: SparkSession | None = None
    _registrar: Registrar = field(default_factory=lambda: Registrar(object()))
    _resources: ExitStack = field(default_factory=ExitStack)

    def execute(self, plan: Plan, run: PlannedRun, watch: CancelWatch, hooks: Hooks) -> tuple[ItemResult, ...]:
        """Execute the plan; starts the session if there is none yet."""
        project, recorder = self.workspace.project, run.recorder
        check_log(self.workspace.storage, recorder.log)  # before a JVM starts; nothing is written if none can
        lake = self._open_lake(plan)
        take_ownership(self.workspace.storage, recorder.log, recorder.events.build_request_id)
        with ExitStack() as stack:
            sessions = JobSessions(lake.main, partial(self._open_sibling, lake.main))
            stack.callback(sessions.close)  # after the loaders, which have made views in them
            loaders = self._open_loaders(lake, plan, recorder.events.build_request_id, stack)
            logs = JobLogs(project.job_logs)
            stack.enter_context(logs.writing())
            listeners = (recorder, *hooks.listeners)
            failures = FailureLimit(plan.max_failures)
            work = _Work(loaders, sessions, self.workspace, run.claim(listeners), logs, failures, listeners)
            scheduler = Scheduler(
                work.apply,
                listeners,
                plan.parallel or project.threads,
                cancel=work.cancel,
                on_stop=hooks.tell,
                is_later=work.claiming.is_elsewhere,
                failures=failures,
                limits=lambda item: _to_limits(project.jobs.policy_of(item.dataset)),
            )
            work.is_cancelled = scheduler.is_cancelled
            beats = Heartbeats(recorder.log, [recorder.events], is_taken_over=recorder.is_taken_over)
            with beats, watch.watch(scheduler.stop):
                return scheduler.execute(plan)

    @contextmanager
    def _open_sibling(self, session: SparkSession) -> Iterator[SparkSession]:
        """A session like the main one, for a job run beside others."""
        with sibling_of(session, is_family=False) as sibling:
            sibling.catalog.setCurrentDatabase(self.workspace.project.database)
            stay_in_background(sibling, session)
            yield sibling

    def analyze(self, plan: Plan) -> Plan:
        """The plan with the problems that Spark finds in its definitions; starts the session if there is none yet."""
        lake = self.open_lake(plan.places, is_short=True, in_storage=False)
        planned = PlannedLake(lake.main, lake.files)
        return analyze_plan(plan, self.workspace, self.kinds, planned)

    def _open_loaders(self, lake: Lake, plan: Plan, build_request_id: str, stack: ExitStack) -> dict[str, Loader]:
        """The loader of every kind that has work, by the names of its datasets; closed with the stack."""
        loaders: dict[str, Loader] = {}
        work = [item for item in plan.items if item.action.is_work]
        suppression = read_suppression(self.workspace.project, self.workspace.storage, {item.dataset for item in work})
        for name in sorted({item.kind for item in work}):
            kind = find_kind(self.kinds, name)
            if name not in loaders:
                items = tuple(item for item in work if item.kind in kind.names)
                loader = kind.open(lake, PipelineRun(self.workspace, build_request_id, items, suppression))
                stack.callback(_close, loader)
                loaders |= dict.fromkeys(kind.names, loader)
        return loaders

    def _open_lake(self, plan: Plan) -> Lake:
        return self.open_lake(plan.places, is_short=plan.source_bytes < SHORT_BYTES and not self.is_long_lived)

    def open_lake(self, places: tuple[str, ...], *, is_short: bool, in_storage: bool = True) -> Lake:
        """The tables of the project; starts the session if there is none yet.

        Without `in_storage`, not even the folder of a database is created.
        """
        if self._session is None:
            project = self.workspace.project
            with project_code(project.root):
                carry_by_value(loaded_project_modules())
            request = SessionRequest(
                project.spark,
                project.configuration,
                places,
                project.state_folder,
                project.name,
                is_short=is_short,
                packages=find_drivers(spec.load for spec in self.workspace.specs),
            )
            session = self._resources.enter_context(open_session(request))
            self._resources.enter_context(
                use_database(session, self.workspace.storage, project.database, in_storage=in_storage)
            )
            self._resources.callback(self._registrar.release)
            self._session = session
        # What a lake knows of registered names holds for one plan: tables get other columns from run to run.
        return Lake(self._session, self.workspace.storage, self._registrar)

    def close(self) -> None:
        """Stop the session, or restore the settings of a borrowed one."""
        self._session = None
        self._resources.close()


@dataclass(slots=True)
class _Work:
    """The work of one pipeline run: each item once it is claimed, in a session that can be cancelled without the others."""

    loaders: dict[str, Loader]
    sessions: JobSessions
    workspace: Workspace
    claiming: Claiming
    logs: JobLogs
    failures: FailureLimit
    listeners: tuple[RunListener, ...] = ()
    is_cancelled: Callable[[str], bool] = lambda _: False
    """Whether somebody has cancelled an item, by its id."""
    _stops: dict[str, threading.Event] = field(default_factory=dict)
    _jobs: dict[str, JobSession] = field(default_factory=dict)

    def apply(self, item: Item) -> LoadResult:
        """Load an item, unless another build does; its partitions in several steps, if others have some of them."""
        stop = self._stops[item.id] = threading.Event()
        if self.is_cancelled(item.id):  # perhaps before there was an event to set
            stop.set()
        loads: list[LoadResult] = []
        while True:
            begun = self.claiming.begin(item, stop)
            loads.append(self._do(item, begun, stop))
            if begun.rest is None:
                return add_up(loads)
            self.claiming.finish(item, begun, loads[-1])

    def _do(self, item: Item, begun: Begun, stop: threading.Event) -> LoadResult:
        won = begun.won
        if won is None:
            return LoadResult(None, 0, delegated_to=begun.built_by)
        with self.logs.open(won.job_run_id) as log, self.sessions.use() as job:
            job.number, job.fences = won.number, won.fences
            self._jobs[item.id] = job
            if stop.is_set():  # while it was claimed: nobody has cancelled this session
                raise CancelledError(f"{item.id} was cancelled before it began")

            def load(each: Item) -> LoadResult:
                # Those of the claim that are not built yet: a batch may be built in parts.
                asked = set(each.refs) & set(won.refs)
                job.guard = partial(self.claiming.claims.check, replace(won, refs=tuple(asked) or won.refs))
                return self._load(each, job, log)

            def is_stopped() -> bool:
                return stop.is_set() or job.is_cancelled

            return load_item(self.loaders[item.kind], load, begun.item, self.listeners, self.failures, is_stopped)

    def cancel(self, item: Item) -> None:
        """Cancel the work on an item."""
        if (stop := self._stops.get(item.id)) is not None:
            stop.set()
        if (job := self._jobs.get(item.id)) is not None:
            job.cancel()

    def _load(self, item: Item, job: JobSession, log: JobLog) -> LoadResult:
        """A commit that was made before the load was cancelled counts."""
        log.write("info", f"{item.action.value} {item.id}: {'; '.join(map(str, item.reasons))}")
        try:
            lost = loss_of_session_named(item.dataset, self.workspace.project.state_folder)
            with lost, stored_files_named(item.dataset, self.workspace.storage):
                done = self.loaders[item.kind].load(item)
        except Exception as error:
            text = str(error) if isinstance(error, PenstockError) else describe(error)
            log.write("warning" if job.is_cancelled else "error", "it was cancelled" if job.is_cancelled else text)
            found = self._find_commit(item) if job.is_cancelled else None
            if found is None:
                raise
            done = found
        log.write("info", f"done: version {done.version}, {counted(done.rows, 'row')} written")
        return done

    def _find_commit(self, item: Item) -> LoadResult | None:
        if item.parts:  # the build may have made other commits to the table
            return LoadResult(None, 0) if self.claiming.replan(item) is None else None
        build = self.claiming.claims.build_request_id
        found = find_own_commit(self.workspace.storage, item.dataset, build)
        return LoadResult(found.version, int(found.metrics.get("numOutputRows", 0))) if found is not None else None


def _to_limits(policy: JobPolicy) -> Limits:
    return Limits(RetryRule(policy.attempts, policy.retry_delay), policy.timeout)


def _close(loader: Loader) -> None:
    with best_effort():
        loader.close()
