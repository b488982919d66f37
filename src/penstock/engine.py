"""The composition root: opens the project, its log and its session, and is the only entry point for the command line and the web.

Nothing here imports Spark until a plan has work to do, so that planning and inspecting need no JVM.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.config.project_file import find_project_file, load_project
from penstock.definitions.loading import load_everything
from penstock.definitions.variables import find_unread_variables
from penstock.errors import (
    ConfigError,
    EventLogError,
    Location,
    PenstockError,
    StorageError,
    UsageError,
    first_line,
)
from penstock.eventlog.opening import open_event_log
from penstock.kinds.catalog import Catalog, open_catalog
from penstock.kinds.protocol import Kind, Workspace
from penstock.kinds.registry import KINDS
from penstock.model.clock import Clock, SystemClock, uuid7
from penstock.model.drift import ColumnChange
from penstock.model.plan import Plan
from penstock.model.project import Project
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, Rows, RunResult
from penstock.run.artifacts import write_artifacts
from penstock.run.dead_builds import describe_owner, find_dead_builds
from penstock.run.locking import Holder, hold_project, identify_lock, this_process
from penstock.run.planner import Planner, PlanRequest, find_drift
from penstock.run.recording import RunRecorder, close_dead_builds
from penstock.run.scheduler import OnStop, RunListener, settle
from penstock.run.stopping import RECORD_SECONDS, Hooks, to_stopped_result
from penstock.storage.files import open_storage
from penstock.tombstones.store import TombstoneStore

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.eventlog.contract import EventLog
    from penstock.inspect.doctor import Check
    from penstock.inspect.inspector import Inspector
    from penstock.lake.tables import Lake
    from penstock.run.continuous import OnBatch
    from penstock.run.erasing import Erasing
    from penstock.run.executor import Executor
    from penstock.run.maintaining import Maintaining
    from penstock.run.partition_builds import PartitionBuilds
    from penstock.run.verifying import Verifying

_EVENT_LOG = "PENSTOCK__EVENT_LOG"
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
    def verification(self) -> Verifying:
        """Compares loaded tables with their sources, and repairs them."""
        from penstock.run.verifying import Verifying

        return Verifying(self)

    @contextmanager
    def recorded(self) -> Iterator[RunRecorder]:
        """The project's lock and a new build request, for work that is not a pipeline run."""
        with self._recorded(Hooks(), _WORK_WAITS, _ignore) as recorder:
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

    def request(
        self,
        select: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        full_refresh: str | None = None,
        full_refresh_all: bool = False,
        allow_history_loss: str | None = None,
        drop_retired: bool = False,
    ) -> PlanRequest:
        """A request from the arguments of the command line."""
        refresh, may_lose = _names(full_refresh), _names(allow_history_loss)
        return PlanRequest(tuple(select or ()), tuple(exclude or ()), refresh, full_refresh_all, may_lose, drop_retired)

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
    ) -> RunResult:
        """Plan and execute, while no other run works on this project.

        An interrupt raises StoppedError, a KeyboardInterrupt that has the results so far; `on_stop` gets it at once.
        """
        hooks, asked = Hooks(listeners, on_plan or _ignore, on_stop), request or PlanRequest()
        self._hide_again()
        with self._recorded(hooks, wait_seconds, on_wait or _ignore) as recorder:
            return self._run(lambda: self.plan(asked), recorder, hooks, asked.message)

    def apply(self, plan: Plan, listeners: tuple[RunListener, ...] = ()) -> tuple[ItemResult, ...]:
        """Execute exactly this plan, under the project's lock; `run` plans and then does this."""
        hooks = Hooks(listeners)
        with self._recorded(hooks, 0.0, _ignore) as recorder:
            return self._run(lambda: plan, recorder, hooks).items

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
            with self._recorded(hooks, _BATCH_WAITS, _ignore, stop.is_set) as recorder:
                return self._run(lambda: self.plan(request), recorder, hooks, "penstock run --continuous")

        was_entered, self._is_entered = self._is_entered, True
        try:
            Continuous(lambda: self.plan(request), run, on_batch).follow(stop, seconds)
        finally:
            if not was_entered:
                self.close()

    def schema_drift(self, name: str) -> tuple[ColumnChange, ...]:
        """How the next run would change the columns of a staging table; an error says what prevents the change."""
        return find_drift(Planner(self.workspace, self.kinds), self.catalog.find(name).name)

    def _hide_again(self) -> None:
        """Hide what another program made visible again; a project without tombstones pays one look for a folder."""
        if TombstoneStore(self.workspace.storage, self.clock).exists:
            self.erasure.hide_again()

    @contextmanager
    def _recorded(
        self,
        hooks: Hooks,
        wait_seconds: float,
        on_wait: Callable[[Holder], None],
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[RunRecorder]:
        """A new build request under the project's lock; builds of processes that died are closed first."""
        build_request_id = uuid7(self.clock)
        holder = this_process(build_request_id, self.now().isoformat(timespec="seconds"))
        folder = self.project.state_folder
        lock = hold_project(folder, holder=holder, wait_seconds=wait_seconds, on_wait=on_wait, is_stopped=is_stopped)
        try:
            with lock as died, self._open_log() as log:
                lock_id = identify_lock(folder, uuid7(self.clock))
                close_dead_builds(log, self.clock, find_dead_builds(log, lock_id, died))
                yield RunRecorder(log, BuildRecorder(self.clock, build_request_id), describe_owner(holder, lock_id))
        except KeyboardInterrupt as error:
            stopped = hooks.tell(error)
            stopped.result = stopped.result or RunResult(build_request_id, (), 0.0, str(stopped))
            raise stopped from None

    def _run(
        self, make_plan: Callable[[], Plan], recorder: RunRecorder, hooks: Hooks, message: str = "penstock run"
    ) -> RunResult:
        begun, build_request_id = time.monotonic(), recorder.events.build_request_id
        plan: Plan | None = None
        result: RunResult | None = None
        try:
            recorder.received(message)
            plan = make_plan()
            hooks.on_plan(plan)
            recorder.planned(plan)
            items = self._execute(plan, recorder, hooks)
            result = RunResult(build_request_id, items, time.monotonic() - begun)
            recorder.finished(result)
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
                f"the run has ended, but its results cannot be written: {first_line(error)}",
                hint="remove what is in the place of the file, or check the folder .penstock",
            ) from None
        return result

    def _execute(self, plan: Plan, recorder: RunRecorder, hooks: Hooks) -> tuple[ItemResult, ...]:
        if not plan.has_work:
            return settle(plan, hooks.listeners)
        with self._executing() as executor:
            listeners = (recorder, *hooks.listeners)
            return executor.execute(plan, recorder.events.build_request_id, listeners, hooks.tell)

    def now(self) -> datetime:
        """The time by the engine's clock."""
        return datetime.fromtimestamp(self.clock.now_ns() / 1e9, tz=UTC)

    @contextmanager
    def _open_log(self) -> Iterator[EventLog]:
        log = open_event_log(self.project.event_log)
        try:
            yield log
        finally:
            log.close()


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


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


def open_project(
    start: Path | None = None,
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    event_log: str | None = None,
) -> Project:
    """Read penstock.yml of a folder (or one above it), without the definitions."""
    values = dict(os.environ if environment is None else environment)
    if event_log is not None:
        values[_EVENT_LOG] = event_log
    file = find_project_file(start or Path.cwd())
    try:
        return load_project(file, target=target, environment=values, vars=variables or {})
    except ConfigError as error:
        if event_log is not None and error.location is not None and error.location.file.endswith(_EVENT_LOG):
            error.location = Location("--event-log")  # what the user typed
        raise


def check_machine(
    start: Path | None = None,
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    event_log: str | None = None,
) -> list[Check]:
    """Check what a run needs, with the fix for whatever is missing."""
    from penstock.inspect.doctor import check_project, run_checks

    return run_checks(
        *check_project(lambda: open_project(start, target=target, variables=variables, event_log=event_log))
    )


__all__ = ["Engine", "PlanRequest", "Rows", "check_machine", "open_engine", "open_project"]
