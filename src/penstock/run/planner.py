"""Making the plan: the kinds observe their datasets (no JVM) and decide, each dataset after its inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from penstock.definitions.user_code import describe
from penstock.errors import ConfigError, PenstockError, RawFileError, StorageError, UsageError
from penstock.kinds.catalog import Catalog, find_kind, open_catalog
from penstock.kinds.protocol import Kind, Needs, Workspace
from penstock.lake.data_files import Look, find_damage
from penstock.lake.invalidations import find_invalidations
from penstock.model.dataset import Dataset
from penstock.model.drift import ColumnChange
from penstock.model.graph import order
from penstock.model.names import DatasetName
from penstock.model.partitions.declared import PartitionRequest
from penstock.model.plan import Action, Item, Plan, PlanLine, Problem, Reason, Upstream, Wishes, WorkItem
from penstock.model.progress import TableState
from penstock.run.partition_requests import Asked, find_scheme, resolve_refs
from penstock.run.selection import Definitions, select_datasets
from penstock.storage.files import Files
from penstock.tombstones.suppression import Suppressions

_MOST_QUESTIONS = 10
REFRESH_ALL = "--full-refresh-all refreshes every table"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the user asked to plan."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    allow_history_loss: tuple[str, ...] = ()
    drop_retired: bool = False
    selected_by: str = "--select"
    """What the user typed before the names in `select`."""
    continuous: bool = False
    """Only what can be kept up to date while waiting for changes."""
    partitions: tuple[str, ...] = ()
    """The datasets and partitions to build, with all that they read; instead of `select`."""
    chunk: int | None = None
    """The most partitions in one job run; None lets the engine choose."""
    is_descending: bool = False
    """Whether the last partitions are built first."""
    parallel: int | None = None
    max_failures: int | None = None
    message: str = "penstock run"
    """What the user typed, for the event log."""


def to_request(
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    full_refresh: str | Sequence[str] | None = None,
    full_refresh_all: bool = False,
    allow_history_loss: str | Sequence[str] | None = None,
    drop_retired: bool = False,
) -> PlanRequest:
    """A request from the arguments of the command line."""
    refresh = _names("--full-refresh", full_refresh)
    may_lose = _names("--allow-history-loss", allow_history_loss)
    return PlanRequest(tuple(select or ()), tuple(exclude or ()), refresh, full_refresh_all, may_lose, drop_retired)


def _names(option: str, given: str | Sequence[str] | None) -> tuple[str, ...]:
    """All names of comma-separated lists, each once."""
    lists = [given] if isinstance(given, str) else given or ()
    found = [[name.strip() for name in text.split(",") if name.strip()] for text in lists]
    if not all(found):
        raise UsageError(f"{option} is empty", hint="name a dataset, or remove the option")
    return tuple(dict.fromkeys(name for names in found for name in names))


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans one project from its definitions, its sources and its tables."""

    workspace: Workspace
    kinds: tuple[Kind, ...]

    def plan(self, request: PlanRequest) -> Plan:
        """What a pipeline run would do, and why, for every selected dataset."""
        catalog = open_catalog(self.workspace, self.kinds)
        asked = resolve_refs(catalog, request.partitions, datetime.now(UTC)) if request.partitions else Asked()
        selected = asked.selected if request.partitions else _select(catalog, request)
        wishes = _to_wishes(catalog, selected, request, asked)
        states = catalog.states(selected | {name for read in selected for name in catalog.graph[read]})
        invalid = _find_invalid(self.workspace.storage, states)
        suppressions = Suppressions(self.workspace.project, self.workspace.storage)
        planned: dict[DatasetName, tuple[Item, ...]] = {}
        for name in order(catalog.graph):
            if name in selected:
                inputs = catalog.datasets[name].inputs
                upstream = {
                    read: Upstream(read, states[read], planned.get(read, ()), find_scheme(catalog, read))
                    for read in inputs
                }
                wanted = replace(wishes[name], full_refresh=True) if name in invalid else wishes[name]
                found = self._decide_safely(catalog.datasets[name], states[name], wanted, upstream)
                if name in invalid and not wishes[name].full_refresh:
                    found = tuple(_because(item, invalid[name]) for item in found)
                planned[name] = tuple(_with_secrets(item, suppressions) for item in found)
        unusable = () if request.select or request.continuous or request.partitions else catalog.unusable
        items = (*unusable, *(item for found in planned.values() for item in found))
        _check_ids(items)
        project = self.workspace.project
        return Plan(
            project.name,
            project.target,
            items,
            {item.id: _describe(catalog, item) for item in items},
            catalog.warnings,
            _find_places(catalog, selected),
            parallel=request.parallel,
            max_failures=request.max_failures,
        )

    def plan_again(self, request: PlanRequest, item: Item) -> Item | None:
        """One item of an earlier plan of this request as it would be planned now; None when there is nothing to do."""
        catalog = open_catalog(self.workspace, self.kinds)
        if item.dataset not in catalog.datasets:
            return item
        name = str(item.dataset)
        again = replace(
            request,
            select=() if item.parts else (name,),
            exclude=(),
            partitions=item.refs if item.parts else (),
            full_refresh=tuple(text for text in request.full_refresh if catalog.find(text).name == item.dataset),
        )
        found = [each for each in self.plan(again).items if each.dataset == item.dataset]
        problem = next((each.problem for each in found if each.problem is not None), None)
        if problem is not None:
            raise problem.to_error()
        if not item.parts:
            work = [each for each in found if each.action.is_work]
            # What only the inputs would show may be known by now: an item for all of a table finds it out by itself.
            unknown = item if work and item.partition is None else None
            return next((each for each in work if each.id == item.id), unknown)
        if find_scheme(catalog, item.dataset) is None and any(each.action.is_work for each in found):
            return item  # only its data shows which of its partitions are due
        due = {part for each in found if each.action.is_work for part in each.parts}
        parts = tuple(part for part in item.parts if part in due)
        return item if parts == item.parts else item.narrowed(parts) if parts else None

    def _decide_safely(
        self, dataset: Dataset, state: TableState[object], wishes: Wishes, upstream: dict[DatasetName, Upstream]
    ) -> tuple[Item, ...]:
        """The decision; damage that the table's newest commits do not show is looked for closely if the table will be written."""
        if state.damage is not None and not state.damage.is_fixed_by_rebuild:
            return _refuse(
                dataset, Problem(state.damage.code, state.damage.text, hint="move it away, or restore the folder")
            )
        found = self._decide(dataset, state, wishes, upstream)
        if not state.exists or state.damage is not None:
            return found
        is_written = any(item.action.is_work for item in found)
        look = Look.BRIEF if not is_written else Look.LOG if wishes.continuous else Look.FULL
        try:
            damage = find_damage(self.workspace.storage, dataset.name, look)
        except StorageError as error:
            return _refuse(dataset, Problem.from_error(error))
        if damage is None:
            return found
        damaged = replace(state, progress=None, damage=damage, last_known=state.payload)
        return self._decide(dataset, damaged, wishes, upstream)

    def _decide(
        self, dataset: Dataset, state: TableState[object], wishes: Wishes, upstream: dict[DatasetName, Upstream]
    ) -> tuple[Item, ...]:
        """The kind's decision; files that cannot be read, or an unexpected error, are a problem of this dataset only."""
        kind = find_kind(self.kinds, dataset.kind)
        try:
            return self._ask(kind, dataset, state, wishes, upstream)
        except (StorageError, RawFileError) as error:
            problem = Problem.from_error(error)
        except PenstockError:
            raise
        except Exception as error:  # noqa: BLE001 - one dataset must not stop the plan of the others
            problem = Problem("internal", f"{dataset.name} ({dataset.kind}) cannot be planned: {describe(error)}")
        return _refuse(dataset, problem)

    def _ask(
        self,
        kind: Kind,
        dataset: Dataset,
        state: TableState[object],
        wishes: Wishes,
        upstream: dict[DatasetName, Upstream],
    ) -> tuple[Item, ...]:
        """Let the kind decide; when it needs more facts, they are observed and it decides again."""
        observation = kind.observe(dataset, state, self.workspace)
        for _ in range(_MOST_QUESTIONS):
            decided = kind.decide(observation, wishes, upstream)
            if not isinstance(decided, Needs):
                return tuple(decided)
            observation = kind.observe_more(observation, decided, self.workspace)
        raise RuntimeError(f"no decision about {dataset.name} after {_MOST_QUESTIONS} observations")


def _refuse(dataset: Dataset, problem: Problem) -> tuple[Item, ...]:
    return (WorkItem(dataset.name, dataset.kind, Action.SKIP, (), None).refused(problem),)


def find_drift(planner: Planner, name: DatasetName) -> tuple[ColumnChange, ...]:
    """How the next run would change the columns of a staging table; an error says what prevents the change."""
    for item in planner.plan(PlanRequest(select=(str(name),))).items:
        if item.problem is not None:
            raise item.problem.to_error()
        if item.effect.column_changes is not None:
            return item.effect.column_changes
    raise UsageError(
        f"{name} is computed: its columns are those of its definition",
        hint="compare two of its versions with --from and --to",
    )


def _find_invalid(storage: Files, states: Mapping[DatasetName, TableState[object]]) -> dict[DatasetName, str]:
    """The datasets that somebody has invalidated as a whole, and why: nothing was loaded since."""
    numbers = {name: state.number or 0 for name, state in states.items() if state.exists}
    return {each.dataset: each.reason for each in find_invalidations(storage, numbers) if each.is_whole}


def _because(item: Item, why: str) -> Item:
    """The item with the reason of an invalidation in place of the refresh that follows from it."""
    reasons = [reason for reason in item.reasons if reason.code != "full_refresh"]
    return replace(item, reasons=(Reason("invalidated", f"invalidated: {why}"), *reasons))


def _with_secrets(item: Item, suppressions: Suppressions) -> Item:
    """The item, refused when its suppressed keys could not be recognized: then an erased person could come back."""
    if not item.action.is_work or item.action.removes_table:
        return item
    try:
        suppressions.of(item.dataset)
    except ConfigError as error:
        return item.refused(Problem.from_error(error))
    return item


def _check_ids(items: Sequence[Item]) -> None:
    """An id names one item: results and events go by it."""
    for name, count in Counter(item.id for item in items).items():
        if count > 1:
            raise PenstockError(
                f"the plan has {count} items called {name}", hint="a kind must give each item its own id"
            )


def _describe(catalog: Catalog, item: Item) -> PlanLine:
    """The kind's words for its item; none for an item that it failed to plan."""
    return catalog.kind_of(item.kind).describe(item) if item.work is not None else PlanLine()


def _select(catalog: Catalog, request: PlanRequest) -> frozenset[DatasetName]:
    chosen = frozenset(catalog.graph)
    if request.select or request.exclude:
        tags = {name: dataset.tags for name, dataset in catalog.datasets.items()}
        project = catalog.workspace.project
        given = (request.select, request.exclude, project.database, request.selected_by)
        definitions = Definitions(catalog.files, project.root, catalog.views)
        chosen = select_datasets(catalog.graph, tags, *given, definitions)
    if request.exclude and not chosen:
        raise UsageError(
            f"--exclude {' '.join(request.exclude)}: nothing is left, because it excludes all that is selected",
            hint="exclude less; `penstock ls` lists the datasets",
        )
    if request.continuous:
        chosen = frozenset(name for name in chosen if catalog.datasets[name].is_continuous)
    return chosen


def _to_wishes(
    catalog: Catalog, selected: frozenset[DatasetName], request: PlanRequest, asked: Asked
) -> dict[DatasetName, Wishes]:
    for text in request.full_refresh:
        if text.startswith("-"):
            raise UsageError(f"--full-refresh needs the name of a table before {text}", hint=REFRESH_ALL)
    refresh = frozenset(catalog.find_stored(text).name for text in request.full_refresh)
    for name in sorted(refresh - selected):
        raise UsageError(f"--full-refresh {name}: it is not selected", hint="name it in --select too")
    may_lose = {catalog.find_stored(text).name for text in request.allow_history_loss}
    return {
        name: Wishes(
            request.full_refresh_all or name in refresh,
            name in may_lose,
            request.drop_retired,
            request.continuous,
            PartitionRequest(asked.partitions.get(name), request.chunk, request.is_descending, asked.values.get(name)),
        )
        for name in selected
    }


def _find_places(catalog: Catalog, selected: frozenset[DatasetName]) -> tuple[str, ...]:
    storage = catalog.workspace.project.storage
    found = {
        place.below(storage)
        for name in selected
        for place in catalog.kind_of(catalog.datasets[name].kind).places(catalog.datasets[name])
    }
    return tuple(sorted(found))
