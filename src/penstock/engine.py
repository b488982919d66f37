"""The composition root: opens the project, its log and its session, and is the only door for the command line and the web.

Nothing here imports Spark until a plan has work to do, so that planning and looking need no JVM.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.config.project_file import find_project_file, load_project
from penstock.definitions.loading import load_everything
from penstock.errors import ConfigError, Location, PenstockError, StorageError, UsageError, first_line
from penstock.eventlog.opening import open_event_log
from penstock.inspect.datasets import (
    DatasetDetails,
    DatasetInfo,
    HistoryEntry,
    NeedsSparkError,
    describe_dataset,
    detail_dataset,
    read_history,
    read_rows,
)
from penstock.inspect.doctor import (
    Check,
    check_event_log,
    check_jars,
    check_java,
    check_project,
    check_raw,
    check_spark,
    check_storage,
)
from penstock.inspect.schemas import SchemaVersion, TableSchema, describe_schema, diff_versions, read_schema_history
from penstock.kinds.cdc.decide import check_continuous
from penstock.lake.progress import read_table_state
from penstock.model.clock import Clock, SystemClock, uuid7
from penstock.model.drift import Change
from penstock.model.plan import Plan
from penstock.model.project import Project
from penstock.model.recording import BuildRecorder
from penstock.model.results import DatasetResult, Rows, RunResult
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.run.locking import Holder, hold_project, this_process
from penstock.run.planning import Planner, PlanRequest
from penstock.run.recording import RunRecorder, close_dead_builds
from penstock.run.scheduler import RunListener
from penstock.storage.files import Files, LocalFiles, open_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.eventlog.contract import EventLog
    from penstock.run.continuous import OnBatch

_EVENT_LOG = "PENSTOCK__EVENT_LOG"
_BATCH_WAITS = 24 * 3600.0
"""Seconds that a batch of a stream waits for a run of the same project."""


@dataclass(slots=True)
class Engine:
    """One opened project. Use `open_engine`; close it, or use it in a `with` block."""

    project: Project
    specs: tuple[DatasetSpec, ...]
    storage: Files
    raw: Files | None
    clock: Clock = field(default_factory=SystemClock)

    @property
    def planner(self) -> Planner:
        return Planner(self.project, self.specs, self.storage, self.raw)

    def request(
        self,
        select: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        full_refresh: str | None = None,
        full_refresh_all: bool = False,
        allow_history_loss: str | None = None,
        drop_retired: bool = False,
    ) -> PlanRequest:
        """A request from the words of the command line."""
        refresh, may_lose = _names(full_refresh), _names(allow_history_loss)
        return PlanRequest(tuple(select or ()), tuple(exclude or ()), refresh, full_refresh_all, may_lose, drop_retired)

    def plan(self, request: PlanRequest | None = None) -> Plan:
        """What a run would do, and why; writes nothing and starts no JVM."""
        return self.planner.plan(request or PlanRequest())

    def run(
        self,
        request: PlanRequest | None = None,
        *,
        listeners: tuple[RunListener, ...] = (),
        on_plan: Callable[[Plan], None] | None = None,
        on_wait: Callable[[Holder], None] | None = None,
        wait_seconds: float = 600.0,
    ) -> RunResult:
        """Plan and do it, while no other run works on this project."""
        with self._recorded(wait_seconds, on_wait or _ignore) as recorder:
            return self._run(lambda: self.plan(request), recorder, listeners, on_plan or _ignore)

    def apply(self, plan: Plan, listeners: tuple[RunListener, ...] = ()) -> tuple[DatasetResult, ...]:
        """Do exactly what this plan says, under the project's lock; `run` is planning and this."""
        with self._recorded(0.0, _ignore) as recorder:
            return self._run(lambda: plan, recorder, listeners, _ignore).datasets

    @contextmanager
    def _recorded(
        self,
        wait_seconds: float,
        on_wait: Callable[[Holder], None],
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[RunRecorder]:
        """A new build request, alone on the project; a build whose process died is closed first."""
        build_request_id = uuid7(self.clock)
        holder = this_process(build_request_id, self.now().isoformat(timespec="seconds"))
        lock = hold_project(
            self.project.state_folder,
            holder=holder,
            wait_seconds=wait_seconds,
            on_wait=on_wait,
            is_stopped=is_stopped,
        )
        with lock as died, self._open_log() as log:
            if died is not None:
                close_dead_builds(log, self.clock, [died.build_request_id])
            yield RunRecorder(log, BuildRecorder(self.clock, build_request_id))

    def check_continuous(self) -> None:
        """Raise when `run_continuously` has nothing that it could keep running."""
        check_continuous(self.specs, self.project.spark.remote)

    def run_continuously(self, on_batch: OnBatch, stop: threading.Event, seconds: float) -> None:
        """Keep every flow of the project running until `stop` is set; what is new is applied as it comes.

        A batch is recorded as a run, and waits for other runs of the project as a run does.
        """
        from penstock.run.continuous import Continuous

        def record(is_stopped: Callable[[], bool]) -> AbstractContextManager[RunRecorder]:
            return self._recorded(_BATCH_WAITS, _ignore, is_stopped)

        Continuous(self.project, self.storage, self.planner.list_feed, on_batch, seconds, record).run(self.specs, stop)

    def _run(
        self,
        make_plan: Callable[[], Plan],
        recorder: RunRecorder,
        listeners: tuple[RunListener, ...],
        on_plan: Callable[[Plan], None],
    ) -> RunResult:
        begun = time.monotonic()
        recorder.received("penstock run")
        try:
            plan = make_plan()
            on_plan(plan)
            recorder.planned(plan)
            datasets = self._execute(plan, recorder, listeners)
        except BaseException as error:
            recorder.failed(error.message if isinstance(error, PenstockError) else type(error).__name__)
            raise
        result = RunResult(recorder.events.build_request_id, datasets, time.monotonic() - begun)
        recorder.finished(result)
        try:
            self._write_artifacts(plan, result)
        except OSError as error:
            raise StorageError(f"the run's results cannot be written: {first_line(error)}") from None
        return result

    def _execute(
        self, plan: Plan, recorder: RunRecorder, listeners: tuple[RunListener, ...]
    ) -> tuple[DatasetResult, ...]:
        from penstock.run.scheduler import settle

        if not plan.has_work:
            return settle(plan, listeners)
        from penstock.run.execution import execute

        return execute(
            plan,
            project=self.project,
            storage=self.storage,
            raw=self.raw,
            build_request_id=recorder.events.build_request_id,
            listeners=(recorder, *listeners),
        )

    def _write_artifacts(self, plan: Plan, result: RunResult) -> None:
        manifest = {
            "format": 1,
            "project": self.project.name,
            "target": self.project.target,
            "datasets": [to_manifest_entry(spec) for spec in self.specs],
            "plan": plan.to_json(),
        }
        for name, content in (("manifest.json", manifest), ("run_results.json", result.to_json())):
            scratch = self.project.state_folder / f".{name}.{os.getpid()}"
            scratch.write_text(json.dumps(content, indent=2) + "\n")
            scratch.replace(self.project.state_folder / name)

    def datasets(self) -> list[DatasetInfo]:
        """Every dataset of the project, staging tables first."""
        specs = {spec.name: spec for spec in self.specs}
        return [
            describe_dataset(self.storage, name, kind, specs.get(name)) for name, kind in self.planner.dataset_kinds()
        ]

    def show(self, name: str) -> DatasetDetails:
        """One dataset in detail."""
        return detail_dataset(self.storage, self._find(name), self.project.configuration)

    def history(self, name: str, limit: int) -> list[HistoryEntry]:
        """The last versions of a dataset's table, newest first."""
        return read_history(self.storage, self._find(name).name, limit)

    def rows(self, name: str, limit: int, *, quarantine: bool = False) -> Rows:
        """A few rows of a dataset's table, or of those that its expectations dropped."""
        info = self._find(name)
        table = info.name.quarantine if quarantine else info.name
        if not read_table_state(self.storage, table).exists:
            raise UsageError(
                f"{info.name} has no {'quarantined rows' if quarantine else 'table yet'}",
                hint="nothing was set aside" if quarantine else "build it with `penstock run`",
            )
        try:
            return read_rows(self.storage, table, limit, self.project.configuration)
        except NeedsSparkError:
            from penstock.run.execution import read_rows_with_spark

            return read_rows_with_spark(self.project, self.storage, table, limit)

    def schema(self, name: str) -> TableSchema:
        """The columns of a dataset's table."""
        info = self._find_built(name)
        return describe_schema(self.storage, info.name, info.state.version or 0, info.state.progress)

    def schema_drift(self, name: str) -> tuple[Change, ...]:
        """How the next run would change the columns of a staging table; an error says what keeps it from being changed."""
        info = self._find(name)
        if info.kind is not DatasetKind.STAGING:
            raise UsageError(
                f"{info.name} is computed: its columns are those of its definition",
                hint="compare two of its versions with --from and --to",
            )
        (plan,) = self.plan(PlanRequest(select=(str(info.name),))).datasets
        if plan.problem is not None:
            raise plan.problem.to_error()
        return plan.changes

    def schema_diff(self, name: str, before: int | None, after: int | None) -> tuple[Change, ...]:
        """How the columns of two versions of a table differ."""
        return diff_versions(self.storage, self._find_built(name).name, before, after)

    def schema_history(self, name: str) -> list[SchemaVersion]:
        """The versions that changed a table's columns, newest first."""
        return read_schema_history(self.storage, self._find_built(name).name)

    def _find_built(self, name: str) -> DatasetInfo:
        info = self._find(name)
        if not info.state.exists:
            raise UsageError(f"{info.name} has no table yet", hint="build it with `penstock run`")
        return info

    def _find(self, name: str) -> DatasetInfo:
        kinds = dict(self.planner.dataset_kinds())
        found = self.planner.find(name, kinds)
        spec = next((spec for spec in self.specs if spec.name == found), None)
        return describe_dataset(self.storage, found, kinds[found], spec)

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


def to_manifest_entry(spec: DatasetSpec) -> dict[str, Any]:
    """A definition as `manifest.json` tells it."""
    return {
        "dataset": str(spec.name),
        "kind": spec.kind.value,
        "location": str(spec.location),
        "inputs": [str(name) for name in spec.inputs],
        "fingerprint": spec.fingerprint,
        "tags": list(spec.tags),
        "comment": spec.layout.comment,
        "expectations": [
            {"name": e.name, "condition": e.condition, "on_violation": e.on_violation.value} for e in spec.expectations
        ],
    }


def open_engine(
    start: Path | None = None,
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    event_log: str | None = None,
) -> Engine:
    """Open the project of a folder (or one above it): read penstock.yml and every definition."""
    project = open_project(start, target=target, variables=variables, environment=environment, event_log=event_log)
    storage = open_files(project.storage, project.configuration)
    specs, contracts = load_everything(project)
    return Engine(replace(project, staging=contracts), specs, storage, _open_raw(project))


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


def _open_raw(project: Project) -> Files | None:
    if project.raw is None:
        return None
    files = open_files(project.raw.path, project.configuration)
    if isinstance(files, LocalFiles) and files.root.exists() and not files.root.is_dir():
        raise StorageError(f"raw is {project.raw.path}, which is not a folder")
    return files


def check_machine(
    start: Path | None = None,
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    event_log: str | None = None,
) -> list[Check]:
    """Check what a run needs, with the fix for whatever is missing."""
    found, project = check_project(lambda: open_project(start, target=target, variables=variables, event_log=event_log))
    checks = [check_java(), check_spark(), check_jars(project), found]
    if project is not None:
        checks += [check_raw(project), check_storage(project), check_event_log(project)]
    return checks


__all__ = [
    "Check",
    "DatasetDetails",
    "DatasetInfo",
    "Engine",
    "HistoryEntry",
    "PlanRequest",
    "Rows",
    "SchemaVersion",
    "TableSchema",
    "check_machine",
    "open_engine",
    "open_project",
]
