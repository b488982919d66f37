"""`penstock invalidate` and `penstock mark`: what a person knows about a dataset or its partitions and Penstock cannot see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from penstock.errors import UsageError
from penstock.eventlog.opening import open_event_log
from penstock.kinds.catalog import Catalog, open_catalog
from penstock.kinds.protocol import Accepts, PipelineRun
from penstock.lake.invalidations import (
    Invalidation,
    add_invalidation,
    find_invalidations,
    remove_invalidations,
    replace_invalidation,
)
from penstock.model.clock import uuid7
from penstock.model.dataset import Dataset
from penstock.model.events import PartitionInvalidation
from penstock.model.names import DatasetName
from penstock.model.partitions.declared import read_ordinals, write_ordinals
from penstock.model.partitions.ordinals import to_ordinals, without
from penstock.model.partitions.refs import PartitionRef, to_part
from penstock.model.partitions.requests import Slice
from penstock.model.plan import Effect, Item, Plan
from penstock.model.recording import standalone_event
from penstock.model.results import ItemResult, Outcome, RunResult
from penstock.run.bench import Host, open_bench, raise_first
from penstock.run.partition_requests import read_ref
from penstock.run.planner import Planner, PlanRequest

_INVALIDATED = {"invalidated"}


@dataclass(frozen=True, slots=True)
class _Marked:
    """A dataset, or partitions of it."""

    dataset: Dataset
    parts: Slice | PartitionRef | None = None

    @property
    def name(self) -> DatasetName:
        return self.dataset.name

    def __str__(self) -> str:
        if isinstance(self.parts, Slice) and len(self.parts) == 1:
            return str(next(iter(self.parts)))
        return str(self.name if self.parts is None else self.parts)

    @property
    def refs(self) -> list[str]:
        """Each of them, as the event log names it."""
        return list(map(str, self.parts)) if isinstance(self.parts, Slice) else [str(self)]

    def without_these(self, invalid: Invalidation) -> list[str]:
        """What an invalidation is about besides these partitions."""
        if isinstance(self.parts, PartitionRef):
            return [] if invalid.value_of(self.parts.key) == self.parts.value else [invalid.ref]
        if self.parts is None:
            return []
        scheme = self.parts.scheme
        value = invalid.value_of(scheme.key)
        if value is None:
            return [invalid.ref]
        rest = without(read_ordinals(scheme, [value]), to_ordinals([self.parts.ordinals]))
        return [f"{self.name}/{to_part(scheme.key, text)}" for text in write_ordinals(scheme, rest)]


@dataclass(frozen=True, slots=True)
class Marking:
    """Marks datasets and partitions of one project."""

    host: Host

    def invalidate(self, ref: str, reason: str) -> str:
        """Make a dataset or partitions stale: the next run builds them again, and then what reads them. Gives the whole name."""
        marked, workspace = self._find(ref), self.host.workspace
        clock = self.host.clock
        events = [standalone_event(clock, uuid7(clock), PartitionInvalidation(each, reason)) for each in marked.refs]
        with open_event_log(workspace.project.event_log) as log:
            log.append(events)
        add_invalidation(workspace.storage, marked.name, str(marked), reason, events[0].event_id)
        return str(marked)

    def mark_available(self, ref: str, reason: str) -> str:
        """Take a table, or partitions, as they are for what the definition gives now: made elsewhere, or right after all."""
        marked = self._find(ref)
        items = self._plan(marked)
        is_invalid = all({reason.code for reason in item.reasons} == _INVALIDATED for item in items)
        if is_invalid and (marked.parts is None or not self._is_invalid_as_a_whole(marked)):  # nothing else is wrong
            self._record(marked, items, reason)
        else:
            self._accept(marked, items, reason)
        return str(marked)

    def _accept(self, marked: _Marked, items: list[Item], reason: str) -> None:
        """Commit that the rows are right."""
        workspace, name = self.host.workspace, marked.name
        places = (workspace.project.storage,)
        with open_bench(self.host, f"penstock mark {marked} available: {reason}", places) as bench:
            if not bench.lake.state(name).exists:
                raise UsageError(f"{name} has no table yet", hint="write the table first, or run it")
            kind = self._catalog.kind_of(marked.dataset.kind)
            loader = kind.open(bench.lake, PipelineRun(workspace, bench.build_request_id, tuple(items)))
            try:
                if not isinstance(loader, Accepts):
                    raise UsageError(
                        f"{name} is loaded from its sources, so only a run can bring it up to date",
                        hint="run it; `mark` is for tables that are computed by a definition",
                    )
                raise_first(bench.execute([_join(marked, items)], loader.accept))
            finally:
                loader.close()
            if marked.parts is None:  # of partitions, the progress has noted which are still invalid
                remove_invalidations(workspace.storage, name)

    def _record(self, marked: _Marked, items: list[Item], reason: str) -> None:
        """Withdraw invalidations, and record in the event log that what was invalidated is available; needs no JVM."""
        if not items:
            return
        project, item = self.host.workspace.project, replace(_join(marked, items), effect=Effect())
        with self.host.recorded() as recorder:
            recorder.received(f"penstock mark {marked} available: {reason}")
            recorder.planned(Plan(project.name, project.target, (item,)))
            recorder.started(item)
            self._withdraw(marked)
            result = ItemResult(item.id, item.dataset, item.action, Outcome.PASS, item.reasons)
            recorder.ended(result)
            recorder.finished(RunResult(recorder.events.build_request_id, (result,), 0.0))

    def _withdraw(self, marked: _Marked) -> None:
        """Withdraw invalidations; one of more partitions than these stays for the others."""
        storage = self.host.workspace.storage
        if marked.parts is None:
            remove_invalidations(storage, marked.name)
        for each in self._find_invalid(marked) if marked.parts is not None else ():
            rest = marked.without_these(each)
            if rest != [each.ref]:
                replace_invalidation(storage, each, rest)

    def _is_invalid_as_a_whole(self, marked: _Marked) -> bool:
        return any(each.is_whole for each in self._find_invalid(marked))

    def _find_invalid(self, marked: _Marked) -> list[Invalidation]:
        state = self._catalog.states({marked.name})[marked.name]
        return find_invalidations(self.host.workspace.storage, {marked.name: state.number or 0})

    @property
    def _catalog(self) -> Catalog:
        return open_catalog(self.host.workspace, self.host.kinds)

    def _find(self, text: str) -> _Marked:
        catalog = self._catalog
        if "/" not in text:
            return _Marked(catalog.find_stored(text))
        found = read_ref(catalog, text, datetime.fromtimestamp(self.host.clock.now_ns() / 1e9, tz=UTC))
        dataset = catalog.datasets[found if isinstance(found, DatasetName) else found.dataset]
        catalog.check_stored(dataset)
        return _Marked(dataset) if isinstance(found, DatasetName) else _Marked(dataset, found)

    def _plan(self, marked: _Marked) -> list[Item]:
        """What a run would do to these."""
        asked = PlanRequest(select=(str(marked),)) if marked.parts is None else PlanRequest(partitions=(str(marked),))
        planned = Planner(self.host.workspace, self.host.kinds).plan(asked).items
        found = [item for item in planned if item.dataset == marked.name]
        for item in found:
            if item.problem is not None:
                raise item.problem.to_error()
        work = [item for item in found if item.action.is_work]
        return work if marked.parts is None else [item for item in work if item.effect.rows_change]


def _join(marked: _Marked, items: list[Item]) -> Item:
    """One item for all that is marked, however many a run would need."""
    parts = tuple(ref.partition("/")[2] for ref in marked.refs) if marked.parts is not None else ()
    first = items[0]
    return replace(first, parts=parts, partition=str(marked).partition("/")[2]) if parts else first
