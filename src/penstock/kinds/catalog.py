"""All datasets of a project, as its kinds find them: names, what reads what, and the state of each table. No JVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from penstock.definitions.checking import check_cycles, check_inputs
from penstock.definitions.definition_files import find_ignored_files
from penstock.errors import DefinitionError, PenstockError, UsageError
from penstock.kinds.protocol import Kind, Workspace
from penstock.lake.progress import read_table_state
from penstock.model.dataset import NO_TABLE, Dataset
from penstock.model.erasure import find_mixed_forms
from penstock.model.graph import order
from penstock.model.named import find_idle
from penstock.model.names import DatasetName, match_names
from penstock.model.nearest import did_you_mean
from penstock.model.plan import Item
from penstock.model.progress import TableState
from penstock.storage.local import LocalFiles

_READERS = 16
"""Threads that read the state of tables in an object store."""


@dataclass(frozen=True)
class Catalog:
    """The datasets of a project now."""

    workspace: Workspace
    kinds: tuple[Kind, ...]
    datasets: Mapping[DatasetName, Dataset]
    unusable: tuple[Item, ...] = ()
    warnings: tuple[str, ...] = ()

    @cached_property
    def graph(self) -> dict[DatasetName, frozenset[DatasetName]]:
        """Every table with the tables it reads, directly or through temporary views."""
        return {name: frozenset(found.inputs) for name, found in self.datasets.items() if found.is_stored}

    @cached_property
    def files(self) -> dict[DatasetName, str]:
        """The file of each definition, from the project's folder."""
        return {name: found.spec.location.file for name, found in self.datasets.items() if found.spec is not None}

    def listed(self) -> list[Dataset]:
        """Every dataset, as `ls` lists them: datasets without a definition first, then each definition after its inputs."""
        found = [dataset for _, dataset in sorted(self.datasets.items()) if dataset.spec is None]
        inputs = {name: frozenset(d.spec.inputs) for name, d in self.datasets.items() if d.spec is not None}
        return found + [self.datasets[name] for name in order(inputs) if name in inputs]

    def find(self, text: str) -> Dataset:
        """The dataset that a user means by `name` or `database.name`; without a database it is the only one of that name."""
        try:
            found = match_names(text, self.datasets, self.workspace.project.database)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if len(found) > 1:
            raise UsageError(f"{text} can be {' or '.join(map(str, found))}", hint="name its database too")
        if not found:
            near = did_you_mean(text, [*map(str, self.datasets), *(known.name for known in self.datasets)])
            raise UsageError(f"there is no dataset {text}{near}", hint="`penstock ls` lists them")
        return self.datasets[found[0]]

    def find_stored(self, text: str) -> Dataset:
        """The dataset that a user means, which must have a table."""
        dataset = self.find(text)
        self.check_stored(dataset)
        return dataset

    def check_stored(self, dataset: Dataset) -> None:
        """UsageError for a temporary view, with the tables that read it."""
        if not dataset.is_stored:
            raise UsageError(f"{dataset.name} {NO_TABLE}", hint=self.views[dataset.name])

    @cached_property
    def views(self) -> dict[DatasetName, str]:
        """The temporary views, and for each of them a sentence about the tables that read it."""
        return {name: self._name_readers(name) for name, dataset in self.datasets.items() if not dataset.is_stored}

    def _name_readers(self, view: DatasetName) -> str:
        readers = sorted(self._find_readers(view))
        if not readers:
            return "no table reads it"
        verb = "reads it: name that table" if len(readers) == 1 else "read it: name one of these tables"
        return f"{', '.join(map(str, readers))} {verb}"

    def _find_readers(self, view: DatasetName) -> set[DatasetName]:
        """The tables that read a view, directly or through other views."""
        found, pending = {view}, [view]
        while pending:
            dataset = self.datasets[pending.pop()]
            more = {spec.name for spec in dataset.readers} - found if not dataset.is_stored else set()
            found |= more
            pending += more
        return {name for name in found if self.datasets[name].is_stored}

    def kind_of(self, name: str) -> Kind:
        """The kind of dataset with this name."""
        return find_kind(self.kinds, name)

    def state(self, dataset: Dataset) -> TableState[Any]:
        """The state of a dataset's table, with the payload of its kind."""
        if not dataset.is_stored:
            return TableState()
        return read_table_state(self.workspace.storage, dataset.name, self.kind_of(dataset.kind).codec)

    def states(self, names: Iterable[DatasetName]) -> dict[DatasetName, TableState[Any]]:
        """The states of several tables; in parallel where each read waits for a network."""
        wanted = [self.datasets[name] for name in sorted(names)]
        if isinstance(self.workspace.storage, LocalFiles):
            return {dataset.name: self.state(dataset) for dataset in wanted}
        with ThreadPoolExecutor(max_workers=_READERS) as pool:
            return dict(zip((dataset.name for dataset in wanted), pool.map(self.state, wanted), strict=True))


def find_kind(kinds: Sequence[Kind], name: str) -> Kind:
    """The kind of dataset with this name."""
    found = next((kind for kind in kinds if name in kind.names), None)
    if found is None:
        raise PenstockError(f"no kind of dataset is called {name}", hint="pass the kind to open_engine(kinds=...)")
    return found


def open_catalog(workspace: Workspace, kinds: tuple[Kind, ...]) -> Catalog:
    """Ask every kind for its datasets, and check that all inputs of definitions exist."""
    known = frozenset[str]().union(*(kind.names for kind in kinds))
    for spec in workspace.specs:
        if str(spec.kind) not in known:
            raise DefinitionError(f"{spec.name} has the unknown kind {spec.kind}", location=spec.location)
    found = [kind.discover(workspace) for kind in kinds]
    datasets: dict[DatasetName, Dataset] = {}
    for dataset in (dataset for each in found for dataset in each.datasets):
        other = datasets.setdefault(dataset.name, dataset)
        if other is not dataset:
            raise DefinitionError(
                f"{dataset.name} is both a {other.kind} and a {dataset.kind} dataset",
                hint="rename one of them",
                location=dataset.spec.location if dataset.spec else None,
            )
    check_inputs(workspace.specs, {name for name, dataset in datasets.items() if dataset.spec is None})
    check_cycles(workspace.specs)
    for spec in workspace.specs:
        for name in spec.inputs:
            datasets[name] = replace(datasets[name], readers=(*datasets[name].readers, spec))
    unusable = tuple(item for each in found for item in each.unusable)
    warnings = (*(text for each in found for text in each.warnings), *find_mixed_forms(workspace.project.erasure))
    warnings += find_ignored_files(workspace.project)
    warnings += find_idle(workspace.project, datasets)
    return Catalog(workspace, kinds, datasets, unusable, warnings)
