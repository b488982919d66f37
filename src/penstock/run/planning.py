"""Making the plan: look at raw files and tables (no JVM), then let the pure decisions of `plan` choose per dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.definitions.loading import check_cycles, check_inputs
from penstock.errors import RawFileError, UsageError
from penstock.kinds.cdc.decide import ChangesInput, plan_changes
from penstock.kinds.derived.decide import DerivedInput, ResolvedSpec, fingerprint_settings, plan_derived, resolve_views
from penstock.kinds.staging.decide import StagingFiles, StagingInput, compare_files, plan_staging
from penstock.kinds.staging.footers import read_footers, read_range
from penstock.kinds.staging.raw_files import RawListing, hash_content, list_raw
from penstock.lake.progress import read_table_state
from penstock.model.changes import FeedFiles
from penstock.model.contract import NO_CONTRACT, Contract
from penstock.model.graph import order
from penstock.model.names import QUARANTINE_SUFFIX, STAGING_DATABASE, DatasetName, to_dataset_name
from penstock.model.nearest import did_you_mean
from penstock.model.plan import Action, DatasetPlan, Plan, Problem, Reason
from penstock.model.progress import RawFile, TableState
from penstock.model.project import Project
from penstock.model.schema import Footer
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.run.selection import select_datasets
from penstock.storage.files import Files, LocalFiles, open_files


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the user asked to plan."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    allow_history_loss: tuple[str, ...] = ()
    drop_retired: bool = False


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
            if name in resolved and resolved[name].spec.flows:
                given = self._to_changes_input(resolved[name].spec, states, plans)
                plans[name] = plan_changes(replace(given, full_refresh=name in refresh, may_lose_rows=name in may_lose))
            elif name in resolved:
                plans[name] = self._plan_derived(resolved[name], states, plans, name in refresh)
            else:
                raw = self._to_staging_input(name, listing, states[name], request)
                raw = replace(raw, full_refresh=name in refresh, may_lose_rows=name in may_lose)
                plans[name] = self._plan_staging(raw, listing)
        raw_bytes = sum(file.size for files in listing.tables.values() for file in files)
        bad_names = () if request.select else _bad_names(listing)
        datasets = (*bad_names, *plans.values())
        warnings = (*_warnings(listing), *self._find_idle_contracts(staging), *self._find_missing_feeds(plans))
        return Plan(self.project.name, self.project.target, datasets, views, warnings, raw_bytes)

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

    def _to_staging_input(
        self, name: DatasetName, listing: RawListing, state: TableState, request: PlanRequest
    ) -> StagingInput:
        current = listing.tables.get(name.name, ())
        files = StagingFiles(new=current)
        if state.progress is not None:
            files = compare_files(current, state.progress.files, self._content_hash)
        elif state.last_known:
            paths = {file.path for file in current}
            gone = tuple(entry for path, entry in state.last_known.items() if path not in paths)
            files = StagingFiles(new=current, removed=gone)
        contract = self.project.staging.get(name.name, NO_CONTRACT)
        return StagingInput(
            name,
            current,
            state,
            lambda wanted: self._read_footers(wanted, contract),
            files,
            contract,
            retired=name.name not in listing.tables,
            drop_retired=request.drop_retired,
            readers=tuple(spec for spec in self.specs if name in spec.inputs),
            has_same_values=lambda old, new, added: self._has_same_values(state, old, new, added),
        )

    def _plan_staging(self, given: StagingInput, listing: RawListing) -> DatasetPlan:
        spellings = listing.colliding.get(given.name.name)
        if spellings is not None:
            return _collision(given.name, spellings, given.state)
        return plan_staging(given)

    def _read_footers(self, wanted: Sequence[RawFile], contract: Contract) -> Mapping[str, Footer]:
        if self.raw is None:
            return {}
        required = {name.lower() for name, column in contract.columns.items() if column.required}
        required |= {old.lower() for old, new in contract.renames.items() if new.lower() in required}
        return read_footers(self.raw, [file.path for file in wanted], required)

    def _has_same_values(self, state: TableState, old: str, new: str, added: Sequence[RawFile]) -> bool:
        """Whether the last loaded file's values of one column and a new file's of another overlap, by their footers."""
        if self.raw is None or state.progress is None or not added:
            return False
        loaded = [path for path in reversed(tuple(state.progress.files)) if path != added[0].path]
        try:
            before = next((r for path in loaded[:3] if (r := read_range(self.raw, path, old))), None)
            after = read_range(self.raw, added[0].path, new)
            return bool(before and after and before[0] <= after[1] and after[0] <= before[1])
        except (RawFileError, TypeError, ValueError, OverflowError):  # values that cannot be compared suggest nothing
            return False

    def _find_idle_contracts(self, staging: Iterable[DatasetName]) -> tuple[str, ...]:
        """Declarations of tables that are not there: perhaps a slip of the pen."""
        names = {name.name for name in staging}
        return tuple(
            f"{contract.location}: there is no staging table {table}{did_you_mean(table, names)}"
            for table, contract in self.project.staging.items()
            if table not in names
        )

    def _content_hash(self, file: RawFile) -> str | None:
        """Object stores give an entity tag instead: when that differs, the file counts as changed."""
        return hash_content(self.raw, file.path) if isinstance(self.raw, LocalFiles) else None

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

    def _to_changes_input(
        self,
        spec: DatasetSpec,
        states: Mapping[DatasetName, TableState],
        plans: Mapping[DatasetName, DatasetPlan],
    ) -> ChangesInput:
        return ChangesInput(
            spec=spec,
            state=states[spec.name],
            files={flow.name: self.list_feed(flow.source) for flow in spec.flows if isinstance(flow.source, FeedFiles)},
            input_states={table: states[table] for table in spec.inputs},
            input_plans={table: plans[table] for table in spec.inputs if table in plans},
        )

    def _find_missing_feeds(self, plans: Mapping[DatasetName, DatasetPlan]) -> Iterator[str]:
        """Folders of change files that are not there: perhaps nothing has come yet, perhaps a slip of the pen."""
        for plan in plans.values():
            for flow in plan.spec.flows if plan.spec else ():
                feed = flow.source
                if isinstance(feed, FeedFiles) and "://" not in feed.path and not Path(feed.path).is_dir():
                    yield f"{flow.location}: the flow {flow.name} reads {feed.path}, which is not there"

    def list_feed(self, feed: FeedFiles) -> list[RawFile]:
        """The change files of a folder, by the whole path of each; hidden ones are left out."""
        files = open_files(feed.path, self.project.configuration)
        root = feed.path.rstrip("/")
        return [
            replace(file, path=f"{root}/{file.path}")
            for file in files.walk("")
            if not any(part.startswith((".", "_")) for part in file.path.split("/"))
        ]


def _bad_names(listing: RawListing) -> tuple[DatasetPlan, ...]:
    return tuple(
        _unnamable(
            DatasetName(STAGING_DATABASE, spelled),
            f"raw has {spelled}, which cannot be a table: names are letters, digits and underscores, and do not end in "
            f"{QUARANTINE_SUFFIX}",
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
