"""`penstock invalidate` and `penstock mark`: what a person knows about a dataset and Penstock cannot see."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.eventlog.opening import open_event_log
from penstock.kinds.catalog import open_catalog
from penstock.kinds.protocol import Accepts, PipelineRun
from penstock.lake.invalidations import add_invalidation, remove_invalidations
from penstock.model.clock import uuid7
from penstock.model.dataset import Dataset
from penstock.model.events import PartitionInvalidation
from penstock.model.plan import Item
from penstock.model.recording import standalone_event
from penstock.run.bench import Host, open_bench, raise_first
from penstock.run.planner import Planner, PlanRequest


@dataclass(frozen=True, slots=True)
class Marking:
    """Marks datasets of one project."""

    host: Host

    def invalidate(self, name: str, reason: str) -> str:
        """Make a dataset stale: the next run builds it again, and then what reads it. Gives its whole name."""
        dataset, workspace = self._find(name), self.host.workspace
        event = standalone_event(
            self.host.clock, uuid7(self.host.clock), PartitionInvalidation(str(dataset.name), reason)
        )
        with open_event_log(workspace.project.event_log) as log:
            log.append([event])
        add_invalidation(workspace.storage, dataset.name, str(dataset.name), reason, event.event_id)
        return str(dataset.name)

    def mark_available(self, name: str, reason: str) -> str:
        """Take a table as it is for what its definition gives now: it was made elsewhere, or is right after all."""
        dataset, workspace = self._find(name), self.host.workspace
        items = self._plan(dataset)
        if all({reason.code for reason in item.reasons} == {"invalidated"} for item in items):  # nothing else is wrong
            remove_invalidations(workspace.storage, dataset.name, str(dataset.name))
            return str(dataset.name)
        places = (workspace.project.storage,)
        with open_bench(self.host, f"penstock mark {dataset.name} available: {reason}", places) as bench:
            if not bench.lake.state(dataset.name).exists:
                raise UsageError(f"{dataset.name} has no table yet", hint="write the table first, or run it")
            kind = open_catalog(workspace, self.host.kinds).kind_of(dataset.kind)
            loader = kind.open(bench.lake, PipelineRun(workspace, bench.build_request_id, tuple(items)))
            try:
                if not isinstance(loader, Accepts):
                    raise UsageError(
                        f"{dataset.name} is loaded from its sources, so only a run can bring it up to date",
                        hint="run it; `mark` is for tables that are computed by a definition",
                    )
                raise_first(bench.execute(items[:1], loader.accept))
            finally:
                loader.close()
            remove_invalidations(workspace.storage, dataset.name, str(dataset.name))
        return str(dataset.name)

    def _find(self, text: str) -> Dataset:
        if "/" in text:
            raise UsageError(f"{text}: name the whole dataset", hint=f"write {text.partition('/')[0]}")
        dataset = open_catalog(self.host.workspace, self.host.kinds).find(text)
        if not dataset.is_stored:
            raise UsageError(f"{dataset.name} is a temporary view: it has no table")
        return dataset

    def _plan(self, dataset: Dataset) -> list[Item]:
        """What a run would do to the dataset."""
        request = PlanRequest(select=(str(dataset.name),))
        found = Planner(self.host.workspace, self.host.kinds).plan(request).items
        for item in found:
            if item.problem is not None:
                raise item.problem.to_error()
        return [item for item in found if item.action.is_work]
