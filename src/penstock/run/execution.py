"""Doing what a plan says on Spark. The only module of this room that needs a session."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.project_modules import loaded_project_modules
from penstock.definitions.sql_files import read_query
from penstock.errors import DefinitionError
from penstock.kinds.cdc.load import FlowLoad
from penstock.kinds.derived.load import DerivedLoad
from penstock.kinds.staging.load import StagingLoad
from penstock.lake.tables import Lake, check_no_shadows, use_database
from penstock.model.changes import FeedFiles
from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan, Plan
from penstock.model.project import Project
from penstock.model.results import DatasetResult, LoadResult, Rows
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.run.scheduler import RunListener, Scheduler
from penstock.session.opening import SessionRequest, best_effort, carry_by_value, loss_of_session_named, open_session
from penstock.storage.files import Files

SHORT_BYTES = 64_000_000
"""Below this much raw data a run is over before the JVM's best compiler would have paid off."""


def execute(
    plan: Plan,
    *,
    project: Project,
    storage: Files,
    raw: Files | None,
    build_request_id: str,
    listeners: tuple[RunListener, ...],
) -> tuple[DatasetResult, ...]:
    """Start or find a session and do the plan's work."""
    carry_by_value(loaded_project_modules())
    specs = [dataset.spec for dataset in plan.datasets if dataset.spec is not None]
    change_bytes = sum(dataset.bytes_read for dataset in plan.datasets if dataset.kind is DatasetKind.STREAMING_TABLE)
    request = to_request(project, specs, is_short=plan.raw_bytes + change_bytes < SHORT_BYTES)
    with open_session(request) as session, use_database(session, storage, project.database):
        if any(dataset.action is Action.RECOMPUTE for dataset in plan.datasets):
            check_no_shadows(session, _unqualified_names(plan, project.database))
        lake = Lake(session, storage)
        derived = DerivedLoad(
            lake, project.root, project.database, plan.temporary_views, find_reads, build_request_id, project.vars
        )
        staging = StagingLoad(lake, raw, build_request_id) if raw is not None else None
        flows = FlowLoad(lake, build_request_id, project.vars, project.configuration)

        def apply(dataset: DatasetPlan) -> LoadResult:
            with loss_of_session_named(dataset.name, project.state_folder):
                if dataset.kind is DatasetKind.STAGING and staging is not None:
                    return staging.apply(dataset)
                if dataset.kind is DatasetKind.STREAMING_TABLE:
                    return flows.apply(dataset)
                return derived.apply(dataset)

        try:
            return Scheduler(apply, listeners, project.threads).execute(plan)
        finally:
            with best_effort():
                derived.drop_views()


def read_rows_with_spark(project: Project, storage: Files, name: DatasetName, limit: int) -> Rows:
    """A few rows of a table that only Spark can read, such as one with widened types."""
    with open_session(to_request(project, (), is_short=True)) as session:
        table = Lake(session, storage).read_shown(name).limit(limit).toArrow()
    return Rows(tuple(table.column_names), tuple(tuple(row.values()) for row in table.to_pylist()))


def to_request(project: Project, specs: Iterable[DatasetSpec], *, is_short: bool) -> SessionRequest:
    """What the session of a project's run must be like."""
    feeds = [flow.source.path for spec in specs for flow in spec.flows if isinstance(flow.source, FeedFiles)]
    places = (project.storage, project.raw.path if project.raw else "", *feeds)
    return SessionRequest(
        project.spark, project.configuration, places, project.state_folder, project.name, is_short=is_short
    )


def _unqualified_names(plan: Plan, database: str) -> set[str]:
    """What definitions of this plan may call without a database: tables of the project's own, and temporary views."""
    tables = {name.name for dataset in plan.datasets for name in dataset.inputs if name.database == database}
    return tables | {name.name for name in plan.temporary_views}


def find_reads(text: str) -> tuple[str, ...]:
    """The tables that a SQL text reads; a text that does not parse is left for Spark to explain."""
    try:
        return read_query(text, ParseCache(None)).inputs
    except DefinitionError:
        return ()
