"""Requests for partitions: builds, backfills with their preview, retries of what failed. They only ask; the planner decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.errors import UsageError
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.model.build_history import BuildHistory
from penstock.model.partitions.declared import BuildOptions, write_ordinals
from penstock.model.partitions.ordinals import Ordinals, from_numbers, members, size, to_ordinals, without
from penstock.model.partitions.refs import PartitionError, PartitionRef, to_part
from penstock.model.partitions.requests import RANGE, Slice, read_request
from penstock.model.partitions.schemes import Countable, TimeScheme
from penstock.model.plan import Plan
from penstock.model.status import BuildStatus, PartitionStatus
from penstock.run.partition_requests import find_named, find_scheme
from penstock.run.planner import PlanRequest

if TYPE_CHECKING:
    from penstock.engine import Engine
    from penstock.eventlog.contract import EventLog
    from penstock.model.names import DatasetName

_STOPPED = (BuildStatus.FAILED, BuildStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class Preview:
    """What a backfill would do with each partition of its range."""

    dataset: DatasetName
    scheme: Countable
    built: tuple[tuple[str, Ordinals], ...]
    """Why partitions are built, and which."""
    kept: Ordinals
    """Those that are up to date."""
    job_runs: int
    late: str | None = None
    """What decides about the others only when the inputs are done."""

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """The partitions as ranges, how many, what happens to them, and why."""
        for why, ordinals in self.built:
            for text, count in self._ranges(ordinals):
                yield text, str(count), "build", why
        for text, count in self._ranges(self.kept):
            yield text, str(count), "skip" if self.late is None else "look", self.late or "up to date"

    def _ranges(self, ordinals: Ordinals) -> Iterator[tuple[str, int]]:
        for each in ordinals if isinstance(self.scheme, TimeScheme) else from_each(ordinals):
            yield f"{self.scheme.key}={write_ordinals(self.scheme, (each,))[0]}", len(each)

    @property
    def count(self) -> int:
        """How many partitions are built."""
        return sum(size(ordinals) for _, ordinals in self.built)

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": str(self.dataset),
            "build": [
                {"partition": self._ref(ordinal), "reason": why}
                for why, found in self.built
                for ordinal in members(found)
            ],
            "skip": [self._ref(ordinal) for ordinal in members(self.kept)],
            "decided_later": self.late,
            "job_runs": self.job_runs,
        }

    def _ref(self, ordinal: int) -> str:
        return str(PartitionRef(self.dataset, self.scheme.key, self.scheme.write(ordinal)))


def from_each(ordinals: Ordinals) -> Iterator[range]:
    """Each member of a set as a range of its own."""
    return (range(number, number + 1) for number in members(ordinals))


@dataclass(frozen=True, slots=True)
class PartitionBuilds:
    """Makes requests for `Engine.run` from what a user asks for."""

    engine: Engine

    def build(self, refs: Sequence[str], options: BuildOptions | None = None) -> PlanRequest:
        """A request for these partitions and datasets, with all that they read."""
        given = options or BuildOptions()
        names = map(str, find_named(self.engine.catalog, refs, datetime.now(UTC))) if given.full_refresh else ()
        return PlanRequest(
            partitions=tuple(refs),
            full_refresh=tuple(sorted(names)),
            chunk=given.chunk,
            is_descending=given.is_descending,
            parallel=given.parallel,
            max_failures=given.max_failures,
            message=f"penstock build {' '.join(refs)}",
        )

    def find_slice(self, dataset: str, start: str | None, end: str | None) -> Slice:
        """The partitions of a dataset from start to end, both included; without them, from the first, to the last."""
        catalog = self.engine.catalog
        name = catalog.find(dataset).name
        scheme = find_scheme(catalog, name)
        if scheme is None:
            spec = catalog.datasets[name].spec
            is_open = spec is not None and spec.partitioning is not None
            why = "is partitioned by the values of a column, which have no range" if is_open else "is not partitioned"
            raise PartitionError(f"{name} {why}", hint=f"`penstock run --select {name.name}` builds all that is due")
        if not isinstance(scheme, TimeScheme) and (start or end):
            raise PartitionError(
                f"{name} is partitioned by a list of values, which have no start and end",
                hint=f"build single ones: penstock build {name}/{scheme.key}=VALUE",
            )
        now = datetime.now(UTC)
        existing = scheme.existing(now)
        if not existing:
            raise PartitionError(f"{name} has no partitions yet", hint="the first one must have ended")
        if not isinstance(scheme, TimeScheme):
            return Slice(name, scheme, existing)
        if start and end and scheme.parse(end) < scheme.parse(start):
            raise PartitionError(
                f"{name}: the end {end} is before the start {start}", hint=f"write --start {end} --end {start}"
            )
        first, last = start or scheme.write(existing[0]), end or scheme.write(existing[-1])
        found = read_request(f"{name}/{scheme.key}={first}{RANGE}{last}", {name: scheme}, now, name.database)
        if not isinstance(found, Slice):
            raise TypeError(f"{found} is not a range")
        return found

    def backfill(self, wanted: Slice, options: BuildOptions) -> PlanRequest:
        """A request for the partitions of a slice that are not up to date."""
        refs = [str(wanted)] if isinstance(wanted.scheme, TimeScheme) else list(map(str, wanted))
        return self.build(refs, options)

    def preview(self, wanted: Slice, plan: Plan) -> Preview:
        """What a plan does with the partitions of a slice."""
        scheme = wanted.scheme
        everything = to_ordinals([wanted.ordinals])
        found: dict[str, list[int]] = {}
        known = {to_part(scheme.key, scheme.write(ordinal)): ordinal for ordinal in wanted.ordinals}
        items = [item for item in plan.items if item.dataset == wanted.dataset]
        for item in items:
            why = "; ".join(map(str, item.reasons))
            found.setdefault(why, []).extend(known[part] for part in item.parts if part in known)
        built = tuple((why, from_numbers(numbers)) for why, numbers in found.items() if numbers)
        problem = next((item.problem for item in items if item.problem is not None), None)
        if problem is not None:
            raise problem.to_error()
        late = next(
            (item for item in items if item.action.is_work and not item.parts and item.effect.rows_change), None
        )
        kept = everything
        for _, ordinals in built:
            kept = without(kept, ordinals)
        runs = sum(bool(item.parts) for item in items)
        return Preview(wanted.dataset, scheme, built, kept, runs, late.reasons[0].text if late else None)

    def retry(self, build: str | None, options: BuildOptions | None = None) -> PlanRequest | None:
        """A request for what failed or never ran in a build, by the start of its id; None when everything was built.

        Without a build, it is the newest one that did not succeed; one that was refused before anything was planned, such as
        one with a typo, has nothing to retry.
        """
        with _open(self.engine) as log:
            history = _find_history(log, build)
        if not history.partitions and history.status in _STOPPED:
            raise UsageError(
                f"build {history.build_request_id} ended before anything was planned, so there is nothing to retry",
                hint=f"`penstock log build {history.build_request_id}` says why",
            )
        rest = [ref for ref, status in history.partitions.items() if status is not PartitionStatus.AVAILABLE]
        if not rest:
            return None
        return self.build(tuple(dict.fromkeys(rest)), options)


def _find_history(log: EventLog, build: str | None) -> BuildHistory:
    if build is None:
        newest = projections.newest_planned_build(log, _STOPPED, strict=True)
        if newest is None:
            raise UsageError("no build has failed", hint="`penstock log builds` lists the builds")
        build_request_id = newest.build_request_id
    else:
        found = projections.find_builds(log, build)
        if not found:
            raise UsageError(f"there is no build {build}", hint="`penstock log builds` lists the builds")
        if len(found) > 1 and build not in found:
            raise UsageError(f"several builds start with {build}", hint="give more of the id")
        build_request_id = build if build in found else found[0]
    history = BuildHistory(build_request_id)
    for entry in projections.events_of_build(log, build_request_id):
        history.fold(entry.event)
    return history


@contextmanager
def _open(engine: Engine) -> Iterator[EventLog]:
    log = open_event_log(engine.project.event_log)
    try:
        yield log
    finally:
        log.close()
