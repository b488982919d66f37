"""`penstock plan --analyze`: every definition of a plan is checked by Spark against the columns that its inputs will have."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from penstock.definitions.user_code import describe
from penstock.errors import PenstockError
from penstock.kinds.catalog import Catalog, open_catalog
from penstock.kinds.protocol import Analyzable, Analyzer, Kind, PipelineRun, Workspace
from penstock.lake.planned_lake import NotAnalyzableError, PlannedLake
from penstock.model.dataset import Dataset
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Item, Plan, Problem, Reason, WorkItem
from penstock.model.schema import Schema
from penstock.session.losses import best_effort, loss_of_session_named
from penstock.tombstones.suppression import read_suppression


def analyze_plan(plan: Plan, workspace: Workspace, kinds: tuple[Kind, ...], lake: PlannedLake) -> Plan:
    """The plan with the problems that Spark finds in definitions. Computes and writes nothing.

    What reads a table with a problem waits for it, as in the plan itself.
    """
    catalog = open_catalog(workspace, kinds)
    with ExitStack() as stack:
        analyzers = _open_analyzers(plan, catalog, lake, stack)
        analysis = _Analysis(catalog, lake, analyzers)
        items = tuple(analysis.check(item) for item in plan.items)
        views = analysis.check_unread({item.dataset for item in plan.items})
    return replace(plan, items=(*items, *views), warnings=(*plan.warnings, *analysis.warnings))


def _open_analyzers(plan: Plan, catalog: Catalog, lake: PlannedLake, stack: ExitStack) -> dict[str, Analyzer]:
    stack.callback(lake.close)
    workspace = catalog.workspace
    suppression = read_suppression(
        workspace.project, workspace.storage, {i.dataset for i in plan.items if i.action.is_work}
    )
    found: dict[str, Analyzer] = {}
    for kind in catalog.kinds:
        items = tuple(item for item in plan.items if item.kind in kind.names and item.work is not None)
        if isinstance(kind, Analyzable):
            analyzer = kind.open_analysis(lake, PipelineRun(workspace, "", items, suppression))
            stack.callback(_close, analyzer)
            found |= dict.fromkeys(kind.names, analyzer)
    return found


def _close(analyzer: Analyzer) -> None:
    with best_effort():
        analyzer.close()


@dataclass(slots=True)
class _Analysis:
    """What is known so far, dataset by dataset, each after its inputs."""

    catalog: Catalog
    lake: PlannedLake
    analyzers: dict[str, Analyzer]
    warnings: list[str] = field(default_factory=list)
    _broken: set[DatasetName] = field(default_factory=set)
    _unknown: set[DatasetName] = field(default_factory=set)

    def check(self, item: Item) -> Item:
        """The item, refused if its definition cannot be computed."""
        inputs = self.catalog.datasets[item.dataset].inputs if item.dataset in self.catalog.datasets else ()
        broken = sorted(str(name) for name in inputs if name in self._broken)
        if item.action is Action.SKIP:
            self._broken.add(item.dataset)
            return item
        if broken:
            self._broken.add(item.dataset)
            reason = Reason("upstream_error", f"{', '.join(broken)} cannot be brought up to date")
            return replace(item, action=Action.SKIP, reasons=(reason,))
        problem = self._find_problem(item, inputs)
        if problem is None:
            return item
        self._broken.add(item.dataset)
        return item.refused(problem)

    def check_unread(self, planned: set[DatasetName]) -> tuple[Item, ...]:
        """Problems of definitions without a table that no table reads, if everything is planned."""
        if not planned.issuperset(self.catalog.graph):
            return ()
        found = []
        for dataset in self.catalog.listed():
            analyzer = self.analyzers.get(dataset.kind)
            is_read = any(dataset.name in _views_of(other) for other in self.catalog.datasets.values())
            if dataset.is_stored or is_read or analyzer is None or self._missing(dataset.inputs):
                continue
            item: Item = WorkItem(dataset.name, dataset.kind, Action.SKIP, (), None)
            try:
                analyzer.analyze_unread(dataset)
            except NotAnalyzableError as error:
                self._warn(dataset.name, error.message)
            except PenstockError as error:
                found.append(item.refused(Problem.from_error(error)))
        return tuple(found)

    def _find_problem(self, item: Item, inputs: tuple[DatasetName, ...]) -> Problem | None:
        analyzer = self.analyzers.get(item.kind)
        missing = self._missing(inputs)
        if analyzer is None or missing:
            if missing:
                self._warn(item.dataset, f"the columns of {', '.join(missing)} are not known yet")
            self._note(item, item.effect.schema)
            return None
        try:
            with loss_of_session_named(item.dataset, self.catalog.workspace.project.state_folder):
                self._note(item, analyzer.analyze(item))
        except NotAnalyzableError as error:
            self._warn(item.dataset, error.message)
            self._note(item, None)
        except PenstockError as error:
            return Problem.from_error(error)
        except Exception as error:  # noqa: BLE001 - one definition must not stop the analysis of the others
            return Problem("internal", f"{item.dataset} ({item.kind}) cannot be analyzed: {describe(error)}")
        return None

    def _note(self, item: Item, schema: Schema | None) -> None:
        """Remember the columns that the dataset will have; those of its table, if it stays as it is."""
        exists = self.lake.state(item.dataset).exists
        if exists and (not item.action.is_work or schema is None):
            return
        if schema is None:
            self._unknown.add(item.dataset)
        else:
            self.lake.expect(item.dataset, schema)

    def _missing(self, inputs: tuple[DatasetName, ...]) -> list[str]:
        return sorted(str(name) for name in inputs if name in self._unknown | self._broken)

    def _warn(self, name: DatasetName, why: str) -> None:
        self.warnings.append(f"{name} was not analyzed: {why}")


def _views_of(dataset: Dataset) -> tuple[DatasetName, ...]:
    return tuple(dataset.spec.inputs) if dataset.spec is not None else ()
