"""Batches of partitions that several builds want: each builds what nobody has, and waits for the rest. No JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from builders import make_item
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.build_history import find_illegal_moves
from penstock.model.clock import SystemClock
from penstock.model.plan import Action, Item, Plan, Problem
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, LoadResult, Outcome, RunResult
from penstock.run.claiming import Begun, Claiming, ElsewhereError
from penstock.run.claims.asking import Claims
from penstock.run.recording import RunRecorder

PARTS = tuple(f"day={number}" for number in range(6))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    opened = open_event_log(f"sqlite:///{tmp_path}/events.db")
    yield opened
    opened.close()


def batch(first: int, last: int) -> Item:
    return replace(make_item("daily", action=Action.RECOMPUTE).narrowed(PARTS[first:last]), is_parallel=True)


class Build:
    """One build of a batch, in this process."""

    def __init__(self, log: EventLog, name: str, item: Item, built: set[str]) -> None:
        self.recorder = RunRecorder(log, BuildRecorder(SystemClock(), name))
        self.recorder.received("penstock build")
        self.recorder.planned(Plan("shop", None, (item,)))
        self.recorder.is_claiming = True
        self.item, self.built = item, built
        claims = Claims(log, self.recorder.events)
        self.claiming = Claiming(claims, self.recorder, self.replan, lambda: None, 20.0)

    def replan(self, item: Item) -> Item | None:
        rest = tuple(part for part in item.parts if part not in self.built)
        return item.narrowed(rest) if rest else None

    def end(self, item: Item) -> None:
        self.built.update(item.parts)
        done = ItemResult(item.id, item.dataset, item.action, Outcome.PASS, load=LoadResult(1, 1))
        self.recorder.ended(done)

    def finish_piece(self, begun: Begun) -> None:
        if begun.won is not None:
            self.built.update(begun.item.parts)
        self.claiming.finish(self.item, begun, LoadResult(1, 1))

    def fail(self, problem: Problem) -> None:
        item = self.item
        self.recorder.ended(ItemResult(item.id, item.dataset, item.action, Outcome.ERROR, problem=problem))

    @property
    def jobs(self) -> list[tuple[str, int, int]]:
        """The job runs: status, number of partitions asked for, attempts."""
        found = self.recorder.events.history.jobs.values()
        return [(job.status.name, len(job.targets), job.attempts) for job in found]

    def finish(self) -> None:
        self.recorder.finished(RunResult("b", (), 1.0))


def test_two_builds_share_a_batch(log: EventLog) -> None:
    built: set[str] = set()
    one, two = Build(log, "one", batch(0, 4), built), Build(log, "two", batch(2, 6), built)
    stop = threading.Event()
    first = one.claiming.begin(one.item, stop)
    assert (first.item.parts, first.rest) == (PARTS[:4], None)
    second = two.claiming.begin(two.item, stop)
    assert second.won is not None
    assert second.item.parts == PARTS[4:]
    assert second.rest is not None
    assert second.rest.parts == PARTS[2:4]
    two.finish_piece(second)
    waiting = threading.Timer(0.3, one.end, [first.item])
    waiting.start()
    for rest in (PARTS[3:4], ()):
        begun = two.claiming.begin(two.item, stop)
        assert (begun.won, begun.built_by) == (None, "one")
        assert (begun.rest.parts if begun.rest else ()) == rest
        two.finish_piece(begun)
    waiting.join()
    one.finish()
    two.finish()
    for name in ("one", "two"):
        events = [entry.event for entry in projections.events_of_build(log, name)]
        assert find_illegal_moves(events) == []
    found = {p.partition_ref: p.available_build_request_id for p in projections.list_partitions(log)}
    makers = [*("one",) * 4, *("two",) * 2]
    assert found == {f"main.daily/{part}": maker for part, maker in zip(PARTS, makers, strict=True)}


def test_what_others_built_meanwhile_is_not_built_again(log: EventLog) -> None:
    built: set[str] = set()
    one, two = Build(log, "one", batch(0, 3), built), Build(log, "two", batch(0, 6), built)
    stop = threading.Event()
    one.end(one.claiming.begin(one.item, stop).item)
    one.finish()
    begun = two.claiming.begin(two.item, stop)
    assert (begun.item.parts, begun.rest) == (PARTS[3:], None)
    two.end(two.item)
    two.finish()
    makers = {p.partition_ref: p.available_build_request_id for p in projections.list_partitions(log)}
    assert [makers[ref] for ref in two.item.refs] == [*("one",) * 3, *("two",) * 3], "a build names only what it built"
    assert [status.name for status in two.recorder.events.history.partitions.values()] == [
        *("DELEGATED",) * 3,
        *("AVAILABLE",) * 3,
    ]
    assert set(two.recorder.events.history.delegated_to.values()) == {"one"}


def test_another_attempt_builds_what_the_first_one_left(log: EventLog) -> None:
    built: set[str] = set()
    one, stop = Build(log, "one", batch(0, 4), built), threading.Event()
    first = one.claiming.begin(one.item, stop)
    part = first.item.narrowed(PARTS[:2], " (search 1)")
    one.recorder.started(part)
    one.end(part)
    again = one.claiming.begin(one.item, stop)
    assert again.item.parts == PARTS[2:4]
    assert again.won == replace(first.won, refs=again.item.refs)
    one.end(one.item)
    one.finish()
    events = [entry.event for entry in projections.events_of_build(log, "one")]
    assert find_illegal_moves(events) == []
    assert all(each.is_available for each in projections.list_partitions(log))


def test_another_attempt_of_the_rest_goes_on_with_its_job_run(log: EventLog) -> None:
    built: set[str] = set()
    one, two = Build(log, "one", batch(0, 2), built), Build(log, "two", batch(0, 4), built)
    stop = threading.Event()
    one.claiming.begin(one.item, stop)
    first = two.claiming.begin(two.item, stop)
    assert first.item.parts == PARTS[2:4]
    two.finish_piece(first)
    one.fail(Problem("source", "no answer", is_retryable=True))
    one.finish()
    rest = two.claiming.begin(two.item, stop)
    assert (rest.item.parts, rest.rest) == (PARTS[:2], None)
    two.recorder.started(two.item)  # it failed, and is tried again
    again = two.claiming.begin(two.item, stop)
    assert again == rest
    two.end(two.item)
    two.finish()
    assert two.jobs == [("COMPLETED", 2, 1), ("COMPLETED", 2, 2)]
    assert find_illegal_moves(entry.event for entry in log.read(strict=True)) == []
    assert all(each.is_available for each in projections.list_partitions(log))


def test_the_rest_fails_with_the_reason_of_the_build_that_had_it(log: EventLog) -> None:
    built: set[str] = set()
    one, two = Build(log, "one", batch(0, 2), built), Build(log, "two", batch(0, 4), built)
    stop = threading.Event()
    one.claiming.begin(one.item, stop)
    first = two.claiming.begin(two.item, stop)
    one.fail(Problem("user_code", "it broke"))  # while the other one builds what nobody had
    one.finish()
    two.finish_piece(first)
    with pytest.raises(ElsewhereError, match="it broke"):
        two.claiming.begin(two.item, stop)
    assert two.jobs == [("COMPLETED", 2, 1)]
