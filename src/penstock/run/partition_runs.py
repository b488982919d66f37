"""Running an item that stands for several partitions: late items are expanded, and a batch that fails is searched.

Each smaller batch is a job run of its own, in the thread of the item. Good partitions are
committed whatever happens to the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import CancelledError, PenstockError, TakenOverError
from penstock.kinds.protocol import Expands, Loader
from penstock.model.plan import Item, Problem
from penstock.model.results import ExpectationOutcome, ItemResult, LoadResult, Outcome
from penstock.run.batches import BatchSearch
from penstock.run.failures import FailureLimit
from penstock.run.listeners import RunListener

Load = Callable[[Item], LoadResult]
_SHOWN = 5


class PartitionsFailedError(PenstockError):
    """Some partitions of an item failed; the others are built."""

    code = "partitions_failed"


def load_item(
    loader: Loader,
    load: Load,
    item: Item,
    listeners: Sequence[RunListener],
    failures: FailureLimit,
    is_stopped: Callable[[], bool] = lambda: False,
) -> LoadResult:
    """Load an item, in smaller parts where that is needed.

    No further part begins when too many partitions have failed, or when the item was stopped: CancelledError.
    """
    expanded = loader.expand(item) if isinstance(loader, Expands) else (item,)
    if not item.parts and not any(each.parts or each.problem for each in expanded):
        return load(item)
    run = _Run(load, tuple(listeners), failures, is_stopped)
    if item.parts:
        run.batch(item)
    else:
        for each in expanded:
            if each.problem is None:
                run.part(each)
            else:
                run.refused.append(each.problem)
    return run.result(item)


@dataclass(slots=True)
class _Run:
    load: Load
    listeners: tuple[RunListener, ...]
    failures: FailureLimit
    is_stopped: Callable[[], bool]
    loads: list[LoadResult] = field(default_factory=list)
    failed: dict[str, PenstockError] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    """The partitions that were not tried, because too many others had failed."""
    cause: PenstockError | None = None
    """Why a batch is searched."""
    refused: list[Problem] = field(default_factory=list)
    """What cannot be built at all, while the rest can."""
    count: int = 0

    def batch(self, item: Item) -> None:
        """Load the partitions of an item; if they fail together, search for those that fail."""
        try:
            self._keep(self.load(item), item)
        except PenstockError as error:
            if _concerns_all(error) or len(item.parts) == 1:
                raise
            self._search(item, error)

    def part(self, item: Item) -> None:
        """The same for one of several batches of an item: a failure is noted, and the others go on."""
        if self.failures.is_exceeded:
            self.left.extend(item.parts)
            return
        error = self._record(item)
        if error is None:
            return
        if _concerns_all(error):
            raise error
        if len(item.parts) == 1:
            self._fail(item, {item.parts[0]: error})
        else:
            self._search(item, error)

    def _search(self, item: Item, error: PenstockError) -> None:
        errors, self.cause = {error.message: error}, error
        search = BatchSearch(item.parts, error.message)
        while not self.failures.is_exceeded and (smaller := search.next_batch()) is not None:
            found = self._record(item.narrowed(tuple(smaller), f" (search {search.runs + 1})"))
            if found is not None and _concerns_all(found):
                raise found
            if found is not None:
                errors[found.message] = found
            search.told(found.message if found is not None else None)
            self._fail(item, {part: errors[message] for part, message in search.bad.items()})
        self._fail(item, {part: errors[message] for part, message in search.untried.items()})
        self.left.extend(part for part in item.parts if part not in self.failed and part not in search.good)

    def _fail(self, item: Item, failed: Mapping[str, PenstockError]) -> None:
        self.failed |= failed
        self.failures.add(f"{item.dataset}/{part}" for part in failed)

    def _record(self, item: Item) -> PenstockError | None:
        """A job run of its own; gives the error of one that failed. CancelledError when the item was stopped."""
        self._check_stopped(item)
        begun = time.monotonic()
        for listener in self.listeners:
            listener.started(item)
        result = ItemResult(item.id, item.dataset, item.action, Outcome.PASS, item.reasons)
        found: PenstockError | None = None
        try:
            load = self.load(item)
            self._keep(load, item)
            result = replace(result, load=load)
        except PenstockError as error:
            found = error
            result = replace(result, outcome=Outcome.ERROR, problem=Problem.from_error(error))
            if self.is_stopped():  # most likely because of that
                result = replace(result, outcome=Outcome.CANCELLED, problem=None)
        result = replace(result, seconds=time.monotonic() - begun)
        for listener in self.listeners:
            listener.ended(result)
        if found is not None:
            self._check_stopped(item)
        return found

    def _check_stopped(self, item: Item) -> None:
        if self.is_stopped():
            raise CancelledError(f"{item.id} was cancelled")

    def _keep(self, load: LoadResult, item: Item) -> None:
        self.loads.append(load)
        self.count += len(item.parts)

    def result(self, item: Item) -> LoadResult:
        """What all job runs wrote together; PartitionsFailedError if some failed, or were not tried."""
        if self.failed or self.left:
            raise self._to_error(item)
        if self.refused:
            raise self.refused[0].to_error()
        return add_up(self.loads)

    def _to_error(self, item: Item) -> PartitionsFailedError:
        total = self.count + len(self.failed) + len(self.left)
        failed = sorted(self.failed)
        shown = ", ".join(failed[:_SHOWN]) + (", ..." if len(self.failed) > _SHOWN else "")
        first = self.failed[failed[0]] if failed else self.cause
        texts = [f"{len(self.failed)} of {total} partitions failed: {shown}"] if self.failed else []
        if self.left:
            texts.append(f"{len(self.left)} of {total} were not tried alone: {self.failures.reason.text}")
        texts += [problem.message for problem in self.refused]
        error = PartitionsFailedError(
            f"{item.dataset}: {'; '.join([*texts, *([first.message] if first is not None else [])])}",
            hint=(first.hint if first is not None else None) or "`penstock retry` builds them again",
            location=first.location if first is not None else None,
        )
        error.failed_parts = tuple(failed)
        return error


def _concerns_all(error: PenstockError) -> bool:
    """Whether the error says nothing about single partitions, so that a search for the bad ones would find all of them."""
    return error.retryable or isinstance(error, TakenOverError)


def add_up(loads: Sequence[LoadResult]) -> LoadResult:
    """What several loads of one item wrote together."""
    if len(loads) == 1:
        return loads[0]
    versions = [load.version for load in loads if load.version is not None]
    rows = sum(load.rows for load in loads)
    makers = [load.delegated_to for load in loads if load.delegated_to is not None]
    expectations = _add_up(load.expectations for load in loads)
    by = max(makers, default=None) if not versions else None  # an empty text is a build that is not known any more
    return LoadResult(max(versions, default=None), rows, expectations, delegated_to=by)


def _add_up(found: Iterable[Sequence[ExpectationOutcome]]) -> tuple[ExpectationOutcome, ...]:
    totals: dict[str, ExpectationOutcome] = {}
    for outcome in (outcome for outcomes in found for outcome in outcomes):
        known = totals.get(outcome.name)
        violations = outcome.violations + (known.violations if known is not None else 0)
        totals[outcome.name] = replace(outcome, violations=violations)
    return tuple(totals.values())
