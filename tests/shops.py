"""A project whose plans are done without Spark: tables are written by delta-rs, with real manifests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders import load, load_raw
from penstock.config.project_file import load_project
from penstock.kinds.derived.decide import mark_input
from penstock.lake.progress import read_table_state
from penstock.model.names import DatasetName
from penstock.model.plan import Action, DatasetPlan, Plan
from penstock.model.project import Project
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.run.planning import Planner, PlanRequest
from penstock.storage.files import LocalFiles


def staging(name: str) -> DatasetName:
    return DatasetName("staging", name)


@dataclass
class Shop:
    """A project folder with its planner; `done` does what a plan says without Spark."""

    root: Path
    specs: tuple[DatasetSpec, ...] = ()
    text: str = "name: shop\n"
    storage: LocalFiles = field(init=False)
    raw: LocalFiles = field(init=False)

    def __post_init__(self) -> None:
        self.storage, self.raw = LocalFiles(self.root / "storage"), LocalFiles(self.root / "raw")
        self.raw.root.mkdir(parents=True)

    @property
    def project(self) -> Project:
        (self.root / "penstock.yml").write_text(self.text)
        return load_project(self.root / "penstock.yml", environment={})

    @property
    def planner(self) -> Planner:
        return Planner(self.project, self.specs, self.storage, self.raw)

    def plan(self, *select: str, **request: Any) -> Plan:
        return self.planner.plan(PlanRequest(select=select, **request))

    def actions(self, *select: str, **request: Any) -> dict[str, str]:
        """What is planned for each dataset, with the code of the first reason."""
        plan = self.plan(*select, **request)
        return {str(d.name): f"{d.action.value} {d.reasons[0].code}" for d in plan.datasets}

    def done(self, plan: Plan | None = None) -> None:
        for dataset in (plan or self.plan()).datasets:
            if dataset.action.is_work:
                self._do(dataset)

    def _do(self, dataset: DatasetPlan) -> None:
        if dataset.kind is DatasetKind.STAGING:
            values = {"schema": dataset.schema, "seen": dataset.seen, "settings": dataset.settings}
            progress = dataset.state.progress if dataset.action in {Action.APPEND, Action.EVOLVE} else None
            if progress:
                values |= {"complete": False, "parent": progress.number, "rows": range(dataset.rows_read)}
            load_raw(self.storage, self.raw, dataset.name, [new.file.path for new in dataset.files], **values)
            return
        states = {name: read_table_state(self.storage, name) for name in dataset.inputs}
        marks = {
            str(name): mark_input(
                state, state.progress.schema if state.progress else None, dataset.columns_read.get(name)
            )
            for name, state in states.items()
        }
        load(
            self.storage,
            dataset.name,
            inputs=marks,
            definition=dataset.definition,
            settings=dataset.settings,
        )
