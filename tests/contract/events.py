"""Histories for the tests of event logs: hand-made ones, and generated ones with ties, cancels and delegations."""

from __future__ import annotations

import random
from collections.abc import Iterator

from penstock.model.clock import ManualClock, uuid7
from penstock.model.events import (
    BuildCancel,
    BuildRequest,
    Delegation,
    Event,
    Job,
    JobGraph,
    Partition,
    PartitionInvalidation,
    Payload,
    TaskCancel,
)
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

SECOND = 1_000_000_000


class Maker:
    """Makes events with a clock that the test holds and ids that repeat with the seed."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = ManualClock()
        self.random = random.Random(seed)

    def id(self) -> str:
        return uuid7(self.clock, self.random.randbytes)

    def event(self, build: str, payload: Payload) -> Event:
        return Event(self.id(), self.clock.now_ns(), build, payload)

    def one_of_each(self, build: str = "b1", ref: str = "sales.orders/day=2026-01-01") -> list[Event]:
        """One event of every type."""
        run = "run-1"
        payloads: list[Payload] = [
            BuildRequest(BuildStatus.RECEIVED, (ref, "sales.other"), "asked by «Zoë»"),
            JobGraph({"nodes": [{"id": 1, "label": "a"}], "edges": []}, "graph"),
            Partition(ref, PartitionStatus.REQUESTED),
            Job(run, "sales.orders", (ref,), JobStatus.SCHEDULED, "go", {"k": [1, 2.5, None, "ü"]}, ({"rows": 3}, "x")),
            Partition(ref, PartitionStatus.SCHEDULED, "", run),
            Delegation("sales.other", "b0", "made there"),
            TaskCancel(run, "too slow"),
            PartitionInvalidation(ref, "late rows"),
            BuildCancel("not needed"),
        ]
        events = []
        for payload in payloads:
            self.clock.advance(SECOND)
            events.append(self.event(build, payload))
        return events


def build_history(maker: Maker, build: str, refs: list[str], outcome: str, other: str | None = None) -> Iterator[Event]:
    """The events of one build that ends as said: completed, failed, cancelled or still running."""

    def emit(payload: Payload) -> Event:
        if maker.random.random() < 0.4:  # the others share a timestamp
            maker.clock.advance(maker.random.randrange(SECOND))
        return maker.event(build, payload)

    yield emit(BuildRequest(BuildStatus.RECEIVED, tuple(refs), f"build {build}"))
    yield emit(BuildRequest(BuildStatus.PLANNING))
    yield emit(BuildRequest(BuildStatus.ANALYSIS_COMPLETED))
    yield emit(JobGraph({"jobs": len(refs), "refs": list(refs)}))
    yield emit(BuildRequest(BuildStatus.EXECUTING))
    for ref in refs:
        yield emit(Partition(ref, PartitionStatus.REQUESTED))
        if other is not None and maker.random.random() < 0.3:
            yield emit(Delegation(ref, other, "someone makes it"))
            yield emit(Partition(ref, PartitionStatus.DELEGATED))
            continue
        run = maker.id()
        label = ref.partition("/")[0]
        config = {"ref": ref, "n": maker.random.randrange(9)}
        yield emit(Job(run, label, (ref,), JobStatus.SCHEDULED, "", config))
        yield emit(Partition(ref, PartitionStatus.SCHEDULED, "", run))
        yield emit(Job(run, label, (ref,), JobStatus.RUNNING))
        yield emit(Partition(ref, PartitionStatus.BUILDING, "", run))
        if outcome == "running":
            return
        if outcome == "cancelled":
            yield emit(TaskCancel(run, "stop"))
            yield emit(Job(run, label, (ref,), JobStatus.CANCELLED))
        elif outcome == "failed" and maker.random.random() < 0.5:
            yield emit(Job(run, label, (ref,), JobStatus.FAILED, "boom ☃"))
            yield emit(Partition(ref, PartitionStatus.FAILED, "boom ☃", run))
        else:
            yield emit(Job(run, label, (ref,), JobStatus.COMPLETED, "", None, ({"rows": 12},)))
            yield emit(Partition(ref, PartitionStatus.AVAILABLE, "", run))
            if maker.random.random() < 0.1:
                yield emit(PartitionInvalidation(ref, "a source changed"))
    if outcome == "running":
        return
    if outcome == "cancelled":
        yield emit(BuildCancel("a person asked"))
    yield emit(BuildRequest(BuildStatus[outcome.upper()], (), outcome))


def generated_history(size: int, seed: int = 7, partitions: int = 200) -> list[Event]:
    """A history of exactly `size` events: builds that overlap, tie, fail, are cancelled and delegate."""
    maker = Maker(seed)
    events: list[Event] = []
    open_builds: list[Iterator[Event]] = []
    number = 0
    while len(events) < size:
        if len(open_builds) < 4:
            number += 1
            refs = [f"db.t{maker.random.randrange(9)}/day={maker.random.randrange(partitions)}" for _ in range(3)]
            outcome = maker.random.choice(["completed"] * 5 + ["failed", "cancelled", "running"])
            other = f"build-{number - 1:06d}" if number > 1 else None
            open_builds.append(build_history(maker, f"build-{number:06d}", list(dict.fromkeys(refs)), outcome, other))
        chosen = maker.random.choice(open_builds)
        event = next(chosen, None)
        if event is None:
            open_builds.remove(chosen)
        else:
            events.append(event)
    return events
