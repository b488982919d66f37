"""Making the plan: look at raw files and tables (no JVM), then let the pure decisions of `plan` choose per dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from penstock.config.definitions import check_cycles, check_inputs
from penstock.errors import RawFileError, UsageError
from penstock.lake.files import Files, LocalFiles
from penstock.lake.progress import read_table_state
from penstock.lake.raw_files import RawListing, hash_content, list_raw, read_footers
from penstock.model.names import QUARANTINE_SUFFIX, STAGING_DATABASE, DatasetName, to_dataset_name
from penstock.model.nearest import did_you_mean
from penstock.model.plan import Action, DatasetPlan, NewFile, Plan, Problem, Reason
from penstock.model.progress import RawFile, TableState
from penstock.model.project import Project
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.plan.derived import DerivedInput, ResolvedSpec, fingerprint_settings, plan_derived, resolve_views
from penstock.plan.graph import order
from penstock.plan.selection import select_datasets
from penstock.plan.staging import StagingFiles, StagingInput, check_identical, compare_files, plan_staging


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the user asked to plan."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    allow_history_loss: tuple[str, ...] = ()


@dataclass(slots=True)
class Planner:
    """Plans one project from its definitions, its raw files and its tables."""

    project: Project
    specs: Sequence[DatasetSpec]
    storage: Files
    raw: Files | None

    def plan(self, request: PlanRequest) -> Plan:
        """What would be done, and why, for every selected dataset."""
        listing = self._listing()
        views = {spec.name: spec for spec in self.specs if spec.kind is DatasetKind.TEMPORARY_VIEW}
        staging = self._staging_names(listing)
        check_inputs(self.specs, staging)
        check_cycles(self.specs)
        resolved = {spec.name: resolve_views(spec, views) for spec in self.specs if spec.name not in views}
        graph = self.graph(staging, resolved)
        selected = self._select(graph, request)
        refresh = self._refresh(graph, selected, request)
        may_lose = {self.find(text, graph) for text in request.allow_history_loss}
        states = self._read_states(selected, resolved)
        plans: dict[DatasetName, DatasetPlan] = {}
        for name in order(graph):
            if name not in selected:
                continue
            if name in resolved:
                plans[name] = self._plan_derived(resolved[name], states, plans, name in refresh)
            else:
                plans[name] = self._plan_staging(name, listing, states[name], name in refresh, name in may_lose)
        raw_bytes = sum(file.size for files in listing.tables.values() for file in files)
        bad_names = () if request.select else _bad_names(listing)
        datasets = (*bad_names, *plans.values())
        return Plan(self.project.name, self.project.target, datasets, views, _warnings(listing), raw_bytes)

    def dataset_kinds(self) -> list[tuple[DatasetName, DatasetKind]]:
        """Every dataset that the project knows, staging tables first, then in the order of the graph."""
        check_cycles(self.specs)
        staging = sorted(self._staging_names(self._listing()))
        inputs = {spec.name: frozenset(spec.inputs) for spec in self.specs}
        kinds = {spec.name: spec.kind for spec in self.specs}
        return [(name, DatasetKind.STAGING) for name in staging] + [(n, kinds[n]) for n in order(inputs) if n in kinds]

    def find(self, text: str, known: Iterable[DatasetName]) -> DatasetName:
        """The dataset that a user means by `name` or `database.name`; staging tables may be named without database."""
        names = set(known)
        try:
            name = to_dataset_name(text, self.project.database)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if name not in names and "." not in text:
            name = DatasetName(STAGING_DATABASE, name.name)
        if name not in names:
            near = did_you_mean(text, [*map(str, names), *(known_name.name for known_name in names)])
            raise UsageError(f"there is no dataset {text}{near}", hint="`penstock ls` lists them")
        return name

    def _listing(self) -> RawListing:
        return list_raw(self.raw, self.project.raw.layout) if self.raw and self.project.raw else RawListing({})

    def graph(
        self, staging: Iterable[DatasetName], resolved: Mapping[DatasetName, ResolvedSpec]
    ) -> dict[DatasetName, frozenset[DatasetName]]:
        """Every table with the tables it reads; temporary views are looked through."""
        graph: dict[DatasetName, frozenset[DatasetName]] = {name: frozenset() for name in staging}
        return graph | {name: frozenset(spec.inputs) for name, spec in resolved.items()}

    def _staging_names(self, listing: RawListing) -> set[DatasetName]:
        """Tables that raw has files for, and those that it once had."""
        kept = [name for name in self.storage.folders(STAGING_DATABASE) if not name.endswith(QUARANTINE_SUFFIX)]
        names = {DatasetName(STAGING_DATABASE, name) for name in (*listing.tables, *listing.colliding)}
        once = {DatasetName(STAGING_DATABASE, name) for name in kept} - names
        return names | {name for name in once if read_table_state(self.storage, name).exists}

    def _select(
        self, graph: Mapping[DatasetName, frozenset[DatasetName]], request: PlanRequest
    ) -> frozenset[DatasetName]:
        if not request.select and not request.exclude:
            return frozenset(graph)
        tags = {spec.name: frozenset(spec.tags) for spec in self.specs}
        return select_datasets(graph, tags, request.select, request.exclude, self.project.database)

    def _refresh(
        self,
        graph: Mapping[DatasetName, frozenset[DatasetName]],
        selected: frozenset[DatasetName],
        request: PlanRequest,
    ) -> frozenset[DatasetName]:
        if request.full_refresh_all:
            return selected
        names = frozenset(self.find(text, graph) for text in request.full_refresh)
        for name in sorted(names - selected):
            raise UsageError(f"--full-refresh {name}: it is not selected", hint="name it in --select too")
        return names

    def _read_states(
        self, selected: Iterable[DatasetName], resolved: Mapping[DatasetName, ResolvedSpec]
    ) -> dict[DatasetName, TableState]:
        wanted = set(selected)
        for name in tuple(wanted):
            if name in resolved:
                wanted.update(resolved[name].inputs)
        names = sorted(wanted)
        if isinstance(self.storage, LocalFiles):
            return {name: read_table_state(self.storage, name) for name in names}
        with ThreadPoolExecutor(max_workers=16) as pool:
            return dict(zip(names, pool.map(lambda name: read_table_state(self.storage, name), names), strict=True))

    def _plan_staging(
        self, name: DatasetName, listing: RawListing, state: TableState, refresh: bool, may_lose: bool
    ) -> DatasetPlan:
        if name.name in listing.colliding:
            return _collision(name, listing.colliding[name.name], state)
        current = listing.tables.get(name.name, ())
        files = StagingFiles(new=current)
        if state.progress is not None:
            files = compare_files(current, state.progress.files, self._content_hash)
        elif state.last_known:
            paths = {file.path for file in current}
            gone = tuple(entry for path, entry in state.last_known.items() if path not in paths)
            files = StagingFiles(new=current, removed=gone)
        retired = name.name not in listing.tables
        plan = plan_staging(StagingInput(name, current, state, files, refresh, retired, may_lose))
        return self._add_footers(plan) if plan.files else plan

    def _content_hash(self, file: RawFile) -> str | None:
        """Object stores give an entity tag instead: when that differs, the file counts as changed."""
        return hash_content(self.raw, file.path) if isinstance(self.raw, LocalFiles) else None

    def _add_footers(self, plan: DatasetPlan) -> DatasetPlan:
        if self.raw is None:
            return plan
        try:
            footers = read_footers(self.raw, [new.file.path for new in plan.files])
        except RawFileError as error:
            return _refused(plan, Problem(error.code, error.message, error.hint, error.location))
        files = tuple(NewFile(new.file, footers[new.file.path].rows) for new in plan.files)
        expected = plan.schema if plan.action is Action.APPEND else None
        schema, problem = check_identical({path: footer.schema for path, footer in footers.items()}, expected)
        plan = replace(plan, files=files, schema=schema)
        return _refused(plan, problem) if problem else plan

    def _plan_derived(
        self,
        resolved: ResolvedSpec,
        states: Mapping[DatasetName, TableState],
        plans: Mapping[DatasetName, DatasetPlan],
        refresh: bool,
    ) -> DatasetPlan:
        name = resolved.spec.name
        return plan_derived(
            DerivedInput(
                resolved=resolved,
                state=states[name],
                settings=fingerprint_settings(resolved.spec, self.project.configuration),
                input_states={table: states[table] for table in resolved.inputs},
                input_plans={table: plans[table] for table in resolved.inputs if table in plans},
                full_refresh=refresh,
            )
        )


def _refused(plan: DatasetPlan, problem: Problem) -> DatasetPlan:
    return replace(
        plan, action=Action.SKIP, problem=problem, reasons=(*plan.reasons, Reason(problem.code, problem.message))
    )


def _bad_names(listing: RawListing) -> tuple[DatasetPlan, ...]:
    return tuple(
        _unnamable(
            DatasetName(STAGING_DATABASE, spelled),
            f"raw has {spelled}, which cannot be a table: names are letters, digits and underscores",
        )
        for spelled in listing.bad_names
    )


def _collision(name: DatasetName, spellings: Sequence[str], state: TableState) -> DatasetPlan:
    return _unnamable(name, f"raw has {' and '.join(spellings)}, which differ only by case", state)


def _unnamable(name: DatasetName, message: str, state: TableState = TableState()) -> DatasetPlan:
    problem = Problem("bad_table_name", message, hint="rename it in raw")
    reason = Reason(problem.code, problem.message)
    return DatasetPlan(name, DatasetKind.STAGING, Action.SKIP, (reason,), problem=problem, state=state)


def _warnings(listing: RawListing) -> tuple[str, ...]:
    if not listing.ignored:
        return ()
    count = len(listing.ignored)
    what = "files do not fit the raw layout and are" if count != 1 else "file does not fit the raw layout and is"
    return (f"{count} Parquet {what} ignored: {', '.join(listing.ignored[:3])}{', ...' if count > 3 else ''}",)
