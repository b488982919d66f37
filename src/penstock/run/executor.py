"""Executing plans on Spark: a session that is opened when there is work, and the loaders of each kind."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from penstock.definitions.project_modules import loaded_project_modules
from penstock.kinds.catalog import find_kind
from penstock.kinds.protocol import Kind, Loader, PipelineRun, Workspace
from penstock.lake.naming import use_database
from penstock.lake.planned_lake import PlannedLake
from penstock.lake.stored_files import stored_files_named
from penstock.lake.tables import Lake
from penstock.model.loads import find_drivers
from penstock.model.plan import Item, Plan
from penstock.model.results import ItemResult, LoadResult
from penstock.run.analyzing import analyze_plan
from penstock.run.partition_runs import load_item
from penstock.run.scheduler import OnStop, RunListener, Scheduler
from penstock.session.losses import best_effort, loss_of_session_named
from penstock.session.opening import cancel_work, carry_by_value, open_session
from penstock.session.settings import SessionRequest
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
    _resources: ExitStack = field(default_factory=ExitStack)

    def execute(
        self, plan: Plan, build_request_id: str, listeners: tuple[RunListener, ...], on_stop: OnStop
    ) -> tuple[ItemResult, ...]:
        """Execute the plan; starts the session if there is none yet."""
        lake = self._open_lake(plan)
        with ExitStack() as stack:
            loaders = self._open_loaders(lake, plan, build_request_id, stack)

            def load(item: Item) -> LoadResult:
                lost = loss_of_session_named(item.dataset, self.workspace.project.state_folder)
                with lost, stored_files_named(item.dataset, self.workspace.storage):
                    return loaders[item.kind].load(item)

            def apply(item: Item) -> LoadResult:
                return load_item(loaders[item.kind], load, item, listeners)

            cancel = partial(cancel_work, lake.session)
            threads = plan.parallel or self.workspace.project.threads
            return Scheduler(
                apply, listeners, threads, cancel=cancel, on_stop=on_stop, max_failures=plan.max_failures
            ).execute(plan)

    def analyze(self, plan: Plan) -> Plan:
        """The plan with the problems that Spark finds in its definitions; starts the session if there is none yet."""
        lake = self.open_lake(plan.places, is_short=True, in_storage=False)
        planned = PlannedLake(lake.session, lake.files)
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
            self._session = session
        # What a lake knows of registered names holds for one plan: tables get other columns from run to run.
        return Lake(self._session, self.workspace.storage)

    def close(self) -> None:
        """Stop the session, or restore the settings of a borrowed one."""
        self._session = None
        self._resources.close()


def _close(loader: Loader) -> None:
    with best_effort():
        loader.close()
