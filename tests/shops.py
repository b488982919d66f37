"""A project whose plans are done without Spark: tables are written by delta-rs, with real manifests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders import load, load_raw
from penstock.config.project_file import load_project
from penstock.kinds.derived.progress import CODEC, DerivedProgress
from penstock.kinds.derived.values import mark_input
from penstock.kinds.protocol import Workspace
from penstock.kinds.registry import KINDS
from penstock.lake.progress import ENVELOPE, read_table_state
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Item, Plan
from penstock.model.project import Project
from penstock.model.spec import DatasetSpec
from penstock.run.planner import Planner, PlanRequest
from penstock.storage.local import LocalFiles


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
        return Planner(Workspace(self.project, self.specs, self.storage), KINDS)

    def plan(self, *select: str, **request: Any) -> Plan:
        return self.planner.plan(PlanRequest(select=select, **request))

    def actions(self, *select: str, **request: Any) -> dict[str, str]:
        """What is planned for each dataset, with the code of the first reason."""
        plan = self.plan(*select, **request)
        return {item.id: f"{item.action.value} {item.reasons[0].code}" for item in plan.items}

    def done(self, plan: Plan | None = None) -> None:
        for item in (plan or self.plan()).items:
            if item.action.is_work:
                self._do(item)

    def _do(self, item: Item) -> None:
        work = item.work
        if item.kind == "staging":
            values = {"schema": work.schema, "seen": work.seen, "settings": work.settings}
            progress = work.state.progress if item.action in {Action.APPEND, Action.EVOLVE} else None
            if progress:
                values |= {"complete": False, "parent": progress.number, "rows": range(work.rows_read)}
            load_raw(self.storage, self.raw, item.dataset, [new.file.path for new in work.files], **values)
            return
        resolved = work.resolved
        states = {name: read_table_state(self.storage, name, ENVELOPE) for name in resolved.inputs}
        marks = {
            str(name): mark_input(state, state.schema, resolved.columns.get(name)) for name, state in states.items()
        }
        payload = CODEC.encode(DerivedProgress(marks, resolved.definition, work.settings))
        load(self.storage, item.dataset, kind=CODEC.kind, payload=payload)
