"""The composition root: opens the project, its log and its session, and is the only entry point for the command line and the web.

Nothing here imports Spark until a plan has work to do, so that planning and inspecting need no JVM.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.config.opening import open_project
from penstock.definitions.loading import load_everything
from penstock.definitions.variables import find_unread_variables
from penstock.errors import (
    EventLogError,
    PenstockError,
    StorageError,
    UsageError,
)
from penstock.kinds.catalog import Catalog, open_catalog
from penstock.kinds.protocol import Kind, Workspace
from penstock.kinds.registry import KINDS
from penstock.model.clock import Clock, SystemClock
from penstock.model.drift import ColumnChange
from penstock.model.jobs import MAINTENANCE, PROJECT, Due
from penstock.model.plan import Plan, Reason
from penstock.model.project import Project
from penstock.model.results import CANCEL_REQUESTED, ItemResult, Rows, RunResult
from penstock.run.artifacts import write_artifacts
from penstock.run.builds import Builds
from penstock.run.cancelling import CancelWatch
from penstock.run.listeners import RunListener
from penstock.run.locking import Holder
from penstock.run.planned_runs import PlannedRun
from penstock.run.planner import Planner, PlanRequest, find_drift, to_request
from penstock.run.recording import RunRecorder
from penstock.run.scheduler import OnStop, cancelled, settle
from penstock.run.stopping import RECORD_SECONDS, Hooks, to_stopped_result
from penstock.storage.files import open_storage
from penstock.tombstones.store import TombstoneStore

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.inspect.doctor import Check
    from penstock.inspect.inspector import Inspector
    from penstock.lake.tables import Lake
    from penstock.run.continuous import OnBatch
    from penstock.run.erasing import Erasing
    from penstock.run.executor import Executor
    from penstock.run.maintaining import Maintaining
    from penstock.run.marking import Marking
    from penstock.run.partition_builds import PartitionBuilds
    from penstock.run.requests import Requests
    from penstock.run.scheduling import Scheduling
    from penstock.run.verifying import Verifying

_WORK_WAITS = 600.0
"""Seconds that maintenance waits for a run of the same project."""
_BATCH_WAITS = 24 * 3600.0
"""Seconds that a continuous run waits for another run of the same project."""


@dataclass(slots=True)
class Engine:
    """One opened project. In a `with` block its Spark session stays open between runs; otherwise each run stops its own."""

    workspace: Workspace
    kinds: tuple[Kind, ...] = KINDS
    clock: Clock = field(default_factory=SystemClock)
    is_long_lived: bool = False
    """Many pipeline runs will use the same session."""
    _executor: Executor | None = None
    _is_entered: bool = False

    def __enter__(self) -> Engine:
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the Spark session, or restore the settings of a borrowed one; the engine can be used again."""
        self._is_entered = False
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.close()

    @property
    def project(self) -> Project:
        return self.workspace.project

    @property
    def catalog(self) -> Catalog:
        """The datasets of the project now."""
        return open_catalog(self.workspace, self.kinds)

    @property
    def _builds(self) -> Builds:
        return Builds(self.project, self.clock)

    @property
    def inspector(self) -> Inspector:
        """Inspects the tables of the project, without running anything."""
        from penstock.inspect.inspector import Inspector

        return Inspector(self.catalog)

    @property
    def erasure(self) -> Erasing:
        """Hides persons, erases them, and proves it."""
        from penstock.run.erasing import Erasing

        return Erasing(self)

    @property
    def maintenance(self) -> Maintaining:
        """Compacts tables, and does everything else that is due."""
        from penstock.run.maintaining import Maintaining

        return Maintaining(self)

    @property
    def partition_builds(self) -> PartitionBuilds:
        """Makes requests for partitions, backfills and retries."""
        from penstock.run.partition_builds import PartitionBuilds

        return PartitionBuilds(self)

    @property
    def marking(self) -> Marking:
        """Invalidates datasets, and takes tables as they are."""
        from penstock.run.marking import Marking

        return Marking(self)

    @property
    def verification(self) -> Verifying:
        """Compares loaded tables with their sources, and repairs them."""
        from penstock.run.verifying import Verifying

        return Verifying(self)

    @contextmanager
    def recorded(self) -> Iterator[RunRecorder]:
        """The project's lock and a new build request, for work that is not a pipeline run."""
        with self._builds.open(Hooks(), _WORK_WAITS, _ignore, is_shared=False) as recorder:
            yield recorder

    @contextmanager
    def lake(self, places: Sequence[str]) -> Iterator[Lake]:
        """The tables of the project, through the session of its runs."""
        with self._executing() as executor:
            yield executor.open_lake(tuple(places), is_short=not self.is_long_lived)

    @contextmanager
    def _executing(self) -> Iterator[Executor]:
        """What works on Spark; its session ends with the block, unless the engine is in a `with` block itself."""
        from penstock.run.executor import Executor

        if self._executor is None:
            self._executor = Executor(self.workspace, self.kinds, is_long_lived=self.is_long_lived)
        try:
            yield self._executor
        finally:
            if not self._is_entered:
                self.close()

    request = staticmethod(to_request)

    def plan(self, request: PlanRequest | None = None) -> Plan:
        """What a run would do, and why; writes nothing and starts no JVM."""
        return Planner(self.workspace, self.kinds).plan(request or PlanRequest())

    def analyze(self, plan: Plan) -> Plan:
        """The plan with what Spark finds wrong in its definitions: they are analyzed, nothing is computed or written."""
        with self._executing() as executor:
            return executor.analyze(plan)

    def run(
        self,
        request: PlanRequest | None = None,
        *,
        listeners: tuple[RunListener, ...] = (),
        on_plan: Callable[[Plan], None] | None = None,
        on_wait: Callable[[Holder], None] | None = None,
        on_stop: OnStop | None = None,
        wait_seconds: float = 600.0,
        build_request_id: str | None = None,
    ) -> RunResult:
        """Plan and execute; what another run is building is waited for. `build_request_id` comes from `submit`.

        An interrupt raises StoppedError, a KeyboardInterrupt that has the results so far; `on_stop` gets it at once. A cancel by
        `cancel` ends the run with a result that says so.
        """
        hooks, asked = Hooks(listeners, on_plan or _ignore, on_stop), request or PlanRequest()
        self._hide_again()
        opened = self._builds.open(
            hooks, wait_seconds, on_wait or _ignore, build_request_id=build_request_id, is_shared=True
        )
        with opened as recorder:
            return self._run(self._planned(recorder, asked, wait_seconds), hooks, asked.message)

    def submit(self, message: str = "penstock run") -> str:
        """Record a new build request, and give its id for `run`: from now on others can watch, cancel and wait for it."""
        return self._builds.submit(message)

    @property
    def requests(self) -> Requests:
        """Acts on build requests of any process: cancels them, and waits for them."""
        from penstock.run.requests import Requests

        return Requests(self.project.event_log, self.clock, self.project.job_logs)

    def apply(self, plan: Plan, listeners: tuple[RunListener, ...] = ()) -> tuple[ItemResult, ...]:
        """Execute exactly this plan; `run` plans and then does this."""
        hooks = Hooks(listeners)
        with self._builds.open(hooks, 0.0, _ignore, is_shared=True) as recorder:
            run = replace(self._planned(recorder, None, 0.0), plan=lambda: plan, replan=lambda item: item)
            return self._run(run, hooks).items

    def check_continuous(self) -> None:
        """UsageError when the project has nothing that `run_continuously` could keep up to date."""
        if not any(dataset.is_continuous for dataset in self.catalog.datasets.values()):
            raise UsageError(
                "no flow of this project can run continuously",
                hint="add dp.create_auto_cdc_flow(...); flows of snapshots are updated by `penstock run`",
            )

    def run_continuously(self, on_batch: OnBatch, stop: threading.Event, seconds: float) -> None:
        """Keep every streaming table of the project up to date until `stop` is set.

        Each cycle with new data is recorded as a pipeline run, and waits for other runs of the project.
        """
        from penstock.run.continuous import Continuous

        self.check_continuous()
        request = PlanRequest(continuous=True)

        def run() -> RunResult:
            hooks = Hooks()
            self._hide_again()
            with self._builds.open(hooks, _BATCH_WAITS, _ignore, stop.is_set, is_shared=True) as recorder:
                return self._run(self._planned(recorder, request, _BATCH_WAITS), hooks, "penstock run --continuous")

        was_entered, self._is_entered = self._is_entered, True
        try:
            Continuous(lambda: self.plan(request), run, on_batch).follow(stop, seconds)
        finally:
            if not was_entered:
                self.close()

    def schema_drift(self, name: str) -> tuple[ColumnChange, ...]:
        """How the next run would change the columns of a staging table; an error says what prevents the change."""
        return find_drift(Planner(self.workspace, self.kinds), self.catalog.find(name).name)

    @property
    def scheduling(self) -> Scheduling:
        """Follows the schedules of the project."""
        from penstock.run.scheduling import Scheduling

        return Scheduling(self._builds)

    def run_due(self, due: Due) -> str:
        """Run what a schedule says is due, as the build request that stands for it; gives its result in a line."""
        if due.what == MAINTENANCE:
            with self._builds.open_unlocked(due.build_request_id):
                return self.maintenance.maintain().summary
        select = () if due.what == PROJECT else (f"+{due.what}",)
        return self.run(PlanRequest(select=select), build_request_id=due.build_request_id).summary

    def _hide_again(self) -> None:
        """Hide what another program made visible again; a project without tombstones pays one look for a folder."""
        if TombstoneStore(self.workspace.storage, self.clock).exists:
            self.erasure.hide_again()

    def _planned(self, recorder: RunRecorder, request: PlanRequest | None, wait_seconds: float) -> PlannedRun:
        """What a pipeline run needs to plan, and to share work with others."""
        planner, request = Planner(self.workspace, self.kinds), request or PlanRequest()
        return PlannedRun(
            recorder,
            lambda: planner.plan(request),
            lambda item: planner.plan_again(request, item),
            lambda: self._builds.close_dead(recorder.log),
            wait_seconds,
        )

    def _run(self, run: PlannedRun, hooks: Hooks, message: str = "penstock run") -> RunResult:
        recorder = run.recorder
        begun, build_request_id = time.monotonic(), recorder.events.build_request_id
        plan: Plan | None = None
        result: RunResult | None = None
        hooks.begin(build_request_id)
        try:
            recorder.received(message)
            plan = run.plan()
            hooks.on_plan(plan)
            recorder.planned(plan)
            watch = CancelWatch(recorder.log, build_request_id, recorder)
            watch.look()
            items = self._execute(plan, run, watch, hooks)
            result = RunResult(build_request_id, items, time.monotonic() - begun, watch.reason)
            recorder.finished(result, watch.reason)
        except KeyboardInterrupt as error:
            stopped = hooks.tell(error)
            stopped.result = result or to_stopped_result(build_request_id, plan, stopped, time.monotonic() - begun)
            recorder.cancelled(stopped.result, RECORD_SECONDS)
            if plan is not None:
                with suppress(OSError):
                    write_artifacts(self.workspace, plan, stopped.result)
            raise stopped from None
        except BaseException as error:
            if plan is not None or not isinstance(error, EventLogError):  # a log that takes no event takes no last one
                with suppress(EventLogError):  # the error itself says more; the next run records the end
                    recorder.failed(error.message if isinstance(error, PenstockError) else type(error).__name__)
            raise
        try:
            write_artifacts(self.workspace, plan, result)
        except OSError as error:
            raise StorageError(
                f"the run has ended, but its results cannot be written in {error.filename2 or error.filename}: "
                f"{(error.strerror or type(error).__name__).lower()}",
                hint="remove what is in the place of the file, or check the folder .penstock",
            ) from None
        return result

    def _execute(self, plan: Plan, run: PlannedRun, watch: CancelWatch, hooks: Hooks) -> tuple[ItemResult, ...]:
        if watch.reason is not None:  # before anything began
            return tuple(cancelled(item, Reason(CANCEL_REQUESTED, watch.reason)) for item in plan.items)
        if not plan.has_work:
            return settle(plan, hooks.listeners)
        with self._executing() as executor:
            return executor.execute(plan, run, watch, hooks)


def _ignore(_: object) -> None:
    return None


def open_engine(
    start: Path | None = None,
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    event_log: str | None = None,
    kinds: tuple[Kind, ...] = KINDS,
) -> Engine:
    """Open the project of a folder (or one above it): read penstock.yml and every definition."""
    project = open_project(start, target=target, variables=variables, environment=environment, event_log=event_log)
    storage = open_storage(project.storage, project.configuration)
    specs, project = load_everything(project)
    for warning in find_unread_variables(project, variables or ()):
        logging.getLogger("penstock").warning(warning)
    return Engine(Workspace(project, specs, storage), kinds)


def check_machine(
    start: Path | None = None,
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    event_log: str | None = None,
    reads_data: bool = False,
) -> list[Check]:
    """Check what a run needs, with the fix for whatever is missing; with `reads_data`, read every data file of the tables too."""
    from penstock.inspect.doctor import check_project, run_checks

    found = check_project(lambda: open_project(start, target=target, variables=variables, event_log=event_log))
    return run_checks(*found, reads_data=reads_data)


__all__ = ["Engine", "PlanRequest", "Rows", "check_machine", "open_engine", "open_project"]
