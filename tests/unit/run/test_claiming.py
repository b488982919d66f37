"""Sharing items with other builds: delegation, failure elsewhere, takeover with a guard before each write, outdated plans."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builders import make_item
from penstock.errors import CancelledError, ConcurrentRunError
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.build_history import find_illegal_moves, replay
from penstock.model.clock import SystemClock
from penstock.model.plan import Item, Plan, Problem, Reason
from penstock.model.recording import BuildRecorder
from penstock.model.results import CANCEL_REQUESTED, ItemResult, LoadResult, Outcome
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus
from penstock.run.claiming import Claiming, ElsewhereError
from penstock.run.claims.asking import Claims, LostClaimError
from penstock.run.claims.heartbeats import Heartbeats
from penstock.run.recording import RunRecorder
from penstock.session.jobs import JobSessions, check_not_cancelled

T = make_item("t")
PLAN = Plan("shop", None, (T, make_item("reads", "t")))
LAPSE = 0.3


class Build:
    """A build over one log, and what it would plan now."""

    def __init__(self, log: EventLog, name: str, wait_seconds: float = 20.0, plan: Plan = PLAN) -> None:
        self.recorder = RunRecorder(log, BuildRecorder(SystemClock(), name), is_claiming=True)
        self.recorder.received("penstock run")
        self.recorder.planned(plan)
        self.planned_again: list[str] = []
        self.has_work = True
        claims = Claims(log, self.recorder.events, lapse_seconds=LAPSE, append_seconds=LAPSE / 2)
        self.recorder.is_taken_over = claims.is_taken_over
        self.claiming = Claiming(claims, self.recorder, self.replan, lambda: None, wait_seconds)

    def replan(self, item: Item) -> Item | None:
        self.planned_again.append(item.id)
        return item if self.has_work else None

    def begin(self, item: Item = T) -> Any:
        return self.claiming.begin(item, threading.Event())

    def end(self, item: Item = T, problem: Problem | None = None) -> None:
        outcome = Outcome.ERROR if problem else Outcome.PASS
        load = None if problem else LoadResult(1, 1)
        self.recorder.ended(ItemResult(item.id, item.dataset, item.action, outcome, load=load, problem=problem))

    @property
    def partitions(self) -> dict[str, PartitionStatus]:
        return self.recorder.events.history.partitions


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with open_event_log(f"sqlite:///{tmp_path}/log.db") as opened:
        yield opened


def test_alone_nothing_is_planned_again_except_for_another_attempt(log: EventLog) -> None:
    build = Build(log, "one")
    begun = build.begin()
    assert begun.item is T
    assert build.planned_again == []
    again = build.begin()
    assert again.won == begun.won
    assert build.planned_again == ["main.t"]


def test_what_another_build_does_is_waited_for_and_not_done_again(log: EventLog) -> None:
    one, two = Build(log, "one"), Build(log, "two")
    assert one.begin().won is not None
    two.has_work = False
    threading.Timer(0.3, one.end).start()
    begun = two.begin()
    assert (begun.won, begun.built_by) == (None, "one")
    assert two.partitions["main.t"] is PartitionStatus.DELEGATED
    late = Build(log, "three")
    late.has_work = False
    late.recorder.began_at = one.recorder.began_at  # it planned before the others were done
    begun = late.begin()
    assert (begun.won, begun.built_by) == (None, "one")
    assert late.planned_again == ["main.t"]
    assert late.partitions["main.t"] is PartitionStatus.DELEGATED
    assert [job.status.name for job in late.recorder.events.history.jobs.values()] == ["SKIPPED"]
    reader = Build(log, "four")
    reader.recorder.began_at = one.recorder.began_at
    assert reader.begin(PLAN.items[1]).won is not None
    assert reader.planned_again == ["main.reads"], "its input was built by another build meanwhile"


def test_what_a_build_committed_before_it_died_is_not_built_again(log: EventLog) -> None:
    assert Build(log, "dead").begin().won is not None
    two = Build(log, "two")
    two.claiming.claims.standing("main.t")  # it has seen the other build once
    two.has_work = False
    begun: list[Any] = []
    thread = threading.Thread(target=lambda: begun.append(two.begin()), daemon=True)
    thread.start()
    thread.join(20)
    assert [each.won for each in begun] == [None]
    assert two.planned_again == ["main.t"]


def test_a_failure_elsewhere_is_tried_once_if_that_can_help_and_fails_alike_otherwise(log: EventLog) -> None:
    one, two = Build(log, "one"), Build(log, "two")
    assert one.begin().won is not None
    threading.Timer(0.2, partial(one.end, problem=Problem("source", "no answer", is_retryable=True))).start()
    assert two.begin().won is not None
    three = Build(log, "three")
    threading.Timer(0.2, partial(two.end, problem=Problem("user_code", "it broke"))).start()
    with pytest.raises(ElsewhereError, match="it broke") as caught:
        three.begin()
    assert "build two" in str(caught.value.hint)
    assert three.partitions["main.t"] is PartitionStatus.FAILED


def test_a_build_that_was_cancelled_has_not_failed_so_whoever_waits_goes_on(log: EventLog) -> None:
    one, two = Build(log, "one"), Build(log, "two")
    assert one.begin().won is not None
    why = (Reason(CANCEL_REQUESTED, "cancelled: enough"),)
    stopped = ItemResult(T.id, T.dataset, T.action, Outcome.CANCELLED, why)
    threading.Timer(0.2, one.recorder.ended, [stopped]).start()
    assert two.begin().won is not None


def test_nothing_is_claimed_for_an_item_that_was_cancelled(log: EventLog) -> None:
    one, two = Build(log, "one"), Build(log, "two")
    stop = threading.Event()
    stop.set()
    with pytest.raises(CancelledError):
        one.claiming.begin(T, stop)
    assert one.recorder.events.history.jobs == {}
    assert one.begin().won is not None
    stop.clear()

    def give_back() -> None:
        stop.set()
        one.end(problem=Problem("source", "no answer", is_retryable=True))

    two.claiming.close_dead = give_back  # between two looks at the log
    with pytest.raises(CancelledError):
        two.claiming.begin(T, stop)
    assert two.recorder.events.history.jobs == {}


def test_an_attempt_that_failed_after_its_commit_is_not_made_again(log: EventLog) -> None:
    build = Build(log, "one")
    assert build.begin().won is not None
    build.has_work = False
    build.recorder.started(T)
    begun = build.begin()
    assert (begun.won, begun.built_by) == (None, "one")
    build.end()
    (job,) = build.recorder.events.history.jobs.values()
    assert (job.status, job.attempts) == (JobStatus.COMPLETED, 2)
    assert build.partitions["main.t"] is PartitionStatus.AVAILABLE


def test_a_wait_ends_with_a_cancel_or_its_limit(log: EventLog) -> None:
    one = Build(log, "one")
    assert one.begin().won is not None
    stop = threading.Event()
    beats = threading.Event()

    def beat() -> None:
        while not beats.wait(LAPSE / 4):
            log.append([one.recorder.events.build(one.recorder.events.history.status)])  # type: ignore[arg-type]

    threading.Thread(target=beat, daemon=True).start()
    try:
        with pytest.raises(ConcurrentRunError, match=r"main\.t is being built by build one"):
            Build(log, "two", wait_seconds=0.0).begin()
        threading.Timer(0.2, stop.set).start()
        with pytest.raises(CancelledError):
            Build(log, "three").claiming.begin(T, stop)
    finally:
        beats.set()


def test_a_build_without_a_sign_of_life_is_taken_over_and_cannot_write_any_more(log: EventLog) -> None:
    zombie, two = Build(log, "zombie"), Build(log, "two")
    won = zombie.begin().won
    main: Any = SimpleNamespace()
    sessions = JobSessions(main, lambda: None)  # type: ignore[arg-type,return-value]
    with sessions.use() as job:
        job.guard = partial(zombie.claiming.claims.check, won)
        check_not_cancelled()
        begun = two.begin()
        assert begun.won is not None
        assert begun.won.fences == (won.number,)
        Heartbeats(log, [zombie.recorder.events], is_taken_over=zombie.recorder.is_taken_over).beat()
        with pytest.raises(LostClaimError, match="another build has taken over"):
            check_not_cancelled()
    check_not_cancelled()
    ended = len(log.read())
    zombie.end(problem=Problem("claim_lost", "taken over"))
    zombie.recorder.failed("taken over")
    events = [entry.event for entry in log.read(strict=True)]
    assert (len(events), find_illegal_moves(events)) == (ended, [])
    assert replay(events)["zombie"].status is BuildStatus.FAILED
    two.end()
    two.recorder.failed("enough")
    assert two.partitions["main.t"] is PartitionStatus.AVAILABLE


def test_a_claim_reads_no_more_of_the_log_when_the_build_has_made_many(log: EventLog, monkeypatch: Any) -> None:
    days = tuple(replace(T, partition=f"n={number}", parts=(f"n={number}",)) for number in range(40))
    build = Build(log, "one", plan=Plan("shop", None, days))
    read, counts = log.read, list[int]()

    def count(*given: Any, **named: Any) -> Any:
        found = list(read(*given, **named))
        counts.append(len(found))
        return found

    monkeypatch.setattr(log, "read", count)

    def entries_of_a_claim(item: Item) -> int:
        counts.clear()
        assert build.begin(item).won is not None
        build.end(item)
        return sum(counts)

    costs = [entries_of_a_claim(day) for day in days]
    assert sum(costs[20:]) <= 1.5 * sum(costs[:20]), "when the log is read differs with the time; how much does not"


def test_a_cancel_that_comes_late_does_not_hit_the_next_job_run_of_a_session() -> None:
    interrupted: list[str] = []

    class Session:
        def interruptAll(self) -> None:  # noqa: N802 - Spark's name
            interrupted.append("now")

    main: Any = Session()
    sessions = JobSessions(main, lambda: None)  # type: ignore[arg-type,return-value]
    with sessions.use() as first:
        first.cancel()
        assert first.is_cancelled
    with sessions.use() as second:
        assert second.session is first.session
        first.cancel()
        check_not_cancelled()
    assert interrupted == ["now"]
