"""Stopping single items and whole plans from outside, retries and timeouts of work that can be cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from builders import make_item
from penstock.errors import SourceError
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import SystemClock
from penstock.model.plan import Action, Item, Plan
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, LoadResult, Outcome, RunResult
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus
from penstock.run.cancelling import CancelWatch
from penstock.run.dispatch import Limits, RetryRule
from penstock.run.recording import RunRecorder
from penstock.run.requests import find_request
from penstock.run.scheduler import Scheduler

DONE = LoadResult(1, 10)


@dataclass
class Spark:
    """Work that goes on until it is cancelled."""

    begun: threading.Barrier
    cancels: dict[str, threading.Event] = field(default_factory=dict)

    def apply(self, item: Item) -> LoadResult:
        event = self.cancels.setdefault(item.id, threading.Event())
        if item.dataset.name.startswith("long"):
            self.begun.wait(10)
            assert event.wait(20)
            if item.dataset.name != "long_committed":
                raise RuntimeError("Job 1 cancelled")
        return DONE

    def cancel(self, item: Item) -> None:
        self.cancels[item.id].set()


def make(*items: Item) -> Plan:
    return Plan("shop", None, items)


def names(results: tuple[ItemResult, ...]) -> str:
    return " ".join(result.outcome.value for result in results)


def test_one_item_is_stopped_and_the_others_go_on() -> None:
    spark = Spark(threading.Barrier(2))
    plan = make(make_item("long"), make_item("reads", "long"), make_item("beside"))
    scheduler = Scheduler(spark.apply, threads=2, cancel=spark.cancel)

    def ask() -> None:
        spark.begun.wait(10)
        scheduler.stop("cancelled: too slow", "main.long")

    threading.Thread(target=ask).start()
    results = scheduler.execute(plan)
    assert names(results) == "cancelled skip pass"
    assert results[0].reasons[0].text == "cancelled: too slow"
    assert results[1].reasons[0].text == "main.long was cancelled"
    assert RunResult("b", results, 1.0).has_failed


def test_everything_is_stopped_and_what_was_committed_by_then_counts() -> None:
    spark = Spark(threading.Barrier(3))
    plan = make(*map(make_item, ("long", "long_committed", "waits")), make_item("old", action=Action.NONE))
    scheduler = Scheduler(spark.apply, threads=2, cancel=spark.cancel)

    def ask() -> None:
        spark.begun.wait(10)
        scheduler.stop("cancelled")

    threading.Thread(target=ask).start()
    assert names(scheduler.execute(plan)) == "cancelled pass cancelled no-op"
    assert "main.waits" not in spark.cancels, "it never began"


def test_what_is_stopped_before_it_begins_never_begins() -> None:
    begun: list[str] = []

    def apply(item: Item) -> LoadResult:
        begun.append(item.id)
        return DONE

    scheduler = Scheduler(apply)
    scheduler.stop("cancelled", "main.b")
    assert names(scheduler.execute(make(make_item("a"), make_item("b"), make_item("c", "b")))) == "pass cancelled skip"
    assert begun == ["main.a"]
    scheduler = Scheduler(apply)
    scheduler.stop("cancelled")
    assert names(scheduler.execute(make(make_item("x"), make_item("y", "x")))) == "cancelled cancelled"
    assert begun == ["main.a"]


def test_an_attempt_that_takes_too_long_is_cancelled_before_the_next_one_begins() -> None:
    at_work: list[int] = []
    cancelled = threading.Event()

    def apply(item: Item) -> LoadResult:
        at_work.append(len(at_work))
        if len(at_work) == 1:
            assert cancelled.wait(10)
            raise RuntimeError("Job 1 cancelled")
        return DONE

    limits = Limits(RetryRule(2, 0.01), 0.05)
    scheduler = Scheduler(apply, cancel=lambda _: cancelled.set(), limits=lambda _: limits)
    assert names(scheduler.execute(make(make_item("a")))) == "pass"
    assert len(at_work) == 2
    cancelled.clear()
    at_work.clear()
    once = Scheduler(apply, cancel=lambda _: cancelled.set(), limits=lambda _: Limits(timeout=0.05))
    (result,) = once.execute(make(make_item("a")))
    assert result.problem is not None
    assert result.problem.message == "main.a took longer than 0.05 s"


def test_a_cancel_ends_the_wait_for_another_attempt() -> None:
    tried = threading.Event()

    def apply(item: Item) -> LoadResult:
        tried.set()
        raise SourceError("no answer", retryable=True)

    scheduler = Scheduler(apply, limits=lambda _: Limits(RetryRule(5, 60.0)))
    threading.Thread(target=lambda: (tried.wait(10), scheduler.stop("cancelled"))).start()
    begun = time.monotonic()
    (result,) = scheduler.execute(make(make_item("a")))
    assert result.outcome is Outcome.CANCELLED
    assert time.monotonic() - begun < 30, "the build ends when the attempt would have been due"
    assert scheduler.is_cancelled("main.a")


def test_what_was_cancelled_can_be_asked_by_work_that_is_about_to_begin() -> None:
    seen: dict[str, bool] = {}
    at_work = threading.Event()

    def apply(item: Item) -> LoadResult:
        at_work.set()
        deadline = time.monotonic() + 10
        while not scheduler.is_cancelled("main.a") and time.monotonic() < deadline:
            time.sleep(0.001)
        seen[item.id] = scheduler.is_cancelled(item.id)
        return DONE

    scheduler = Scheduler(apply, threads=2)
    threading.Thread(target=lambda: (at_work.wait(10), scheduler.stop("cancelled", "main.a"))).start()
    scheduler.execute(make(make_item("a"), make_item("b")))
    assert seen == {"main.a": True, "main.b": False}


@pytest.fixture(params=["memory://", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path) -> Iterator[EventLog]:
    uri = request.param if request.param == "memory://" else f"sqlite:///{tmp_path}/log.db"
    with open_event_log(uri) as opened:
        yield opened


def test_a_cancel_in_the_log_stops_the_build_and_everything_is_recorded(log: EventLog) -> None:
    spark = Spark(threading.Barrier(2))
    recorder = RunRecorder(log, BuildRecorder(SystemClock(), "0001-build"))
    plan = make(make_item("long"), make_item("reads", "long"))
    recorder.received("penstock run")
    recorder.planned(plan)
    scheduler = Scheduler(spark.apply, (recorder,), cancel=spark.cancel)

    def ask() -> None:
        spark.begun.wait(10)
        log.append([BuildRecorder(SystemClock(), "0001-build").cancel_build("enough")])

    threading.Thread(target=ask).start()
    with CancelWatch(log, "0001-build", recorder).watch(scheduler.stop) as watch:
        results = scheduler.execute(plan)
    recorder.finished(RunResult("0001-build", results, 1.0, watch.reason), watch.reason)
    assert watch.reason == "cancelled: enough"
    history = recorder.events.history
    assert history.status is BuildStatus.CANCELLED
    assert [job.status for job in history.jobs.values()] == [JobStatus.CANCELLED]
    assert set(history.partitions.values()) == {PartitionStatus.FAILED}
    assert find_request(log, "0001").status is BuildStatus.CANCELLED


def test_a_cancel_of_a_job_run_stops_only_that_one(log: EventLog) -> None:
    spark = Spark(threading.Barrier(2))
    recorder = RunRecorder(log, BuildRecorder(SystemClock(), "0001-build"))
    plan = make(make_item("long"), make_item("beside"))
    recorder.received("penstock run")
    recorder.planned(plan)
    scheduler = Scheduler(spark.apply, (recorder,), threads=2, cancel=spark.cancel)

    def ask() -> None:
        spark.begun.wait(10)
        run = recorder.job_run_of("main.long")
        assert run is not None
        assert recorder.item_of(run) == "main.long"
        log.append([BuildRecorder(SystemClock(), "0001-build").cancel_job(run, "")])

    threading.Thread(target=ask).start()
    with CancelWatch(log, "0001-build", recorder).watch(scheduler.stop) as watch:
        results = scheduler.execute(plan)
    assert watch.reason is None
    recorder.finished(RunResult("0001-build", results, 1.0))
    assert names(results) == "cancelled pass"
    statuses = {job.label: job.status for job in recorder.events.history.jobs.values()}
    assert statuses == {"main.long": JobStatus.CANCELLED, "main.beside": JobStatus.COMPLETED}
    assert recorder.events.history.status is BuildStatus.FAILED


def test_a_takeover_is_no_cancel(log: EventLog) -> None:
    log.append(
        [BuildRecorder(SystemClock(), "b").cancel_build("no sign of life since position 7: taken over by build c")]
    )
    watch = CancelWatch(log, "b", RunRecorder(log, BuildRecorder(SystemClock(), "b")))
    watch.look()
    assert watch.reason is None


def test_a_failed_job_run_says_whether_trying_again_can_help(log: EventLog) -> None:
    def apply(item: Item) -> LoadResult:
        raise SourceError("no answer", retryable=item.dataset.name == "flaky")

    recorder = RunRecorder(log, BuildRecorder(SystemClock(), "b"))
    plan = make(make_item("flaky"), make_item("broken"))
    recorder.received("penstock run")
    recorder.planned(plan)
    limits = Limits(RetryRule(3, 0.001))
    Scheduler(apply, (recorder,), limits=lambda _: limits).execute(plan)
    failed = {
        entry.event.payload.job_label: entry.event.payload.config
        for entry in log.read(strict=True)
        if getattr(entry.event.payload, "status", None) is JobStatus.FAILED
    }
    assert failed == {"main.flaky": {"retryable": True}, "main.broken": None}
    assert {job.label: job.attempts for job in recorder.events.history.jobs.values()} == {
        "main.flaky": 3,
        "main.broken": 1,
    }
