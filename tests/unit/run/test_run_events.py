"""What a run writes to a real event log, and how builds of dead processes are closed."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from builders import make_item
from penstock.errors import PenstockError, UserCodeError
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import ManualClock
from penstock.model.events import BuildRequest, Event, Job, JobGraph, Partition, PartitionInvalidation
from penstock.model.plan import Action, Effect, Item, Plan
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, LoadResult, Outcome, RunResult
from penstock.model.status import BuildStatus, IllegalMoveError, JobStatus, PartitionStatus
from penstock.run.dead_builds import close_build, find_interrupted
from penstock.run.recording import RunRecorder
from penstock.run.scheduler import Scheduler

PLAN = Plan("shop", None, (make_item("a"), make_item("b", "a"), make_item("c"), make_item("old", action=Action.NONE)))


REPLACED = Effect(rows_change=True, replaces_rows=True)
"""What a table holds is known to be wrong."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    opened = open_event_log(f"sqlite:///{tmp_path}/events.db")
    yield opened
    opened.close()


def recorder(log: EventLog, build: str = "build-1") -> RunRecorder:
    return RunRecorder(log, BuildRecorder(ManualClock(), build))


def run(log: EventLog, failing: str = "", *, threads: int = 1) -> None:
    made = recorder(log)

    def apply(plan: Item) -> LoadResult:
        if plan.dataset.name == failing:
            raise UserCodeError("it broke")
        return LoadResult(4, 10)

    made.received("penstock run")
    made.planned(PLAN)
    made.finished(RunResult("build-1", Scheduler(apply, (made,), threads).execute(PLAN), 1.0))


def lines(log: EventLog, build: str = "build-1") -> list[str]:
    """The story of a build, one line per event."""
    told = []
    for entry in projections.events_of_build(log, build):
        payload = entry.event.payload
        match payload:
            case BuildRequest():
                told.append(f"build {payload.status.name}")
            case Job():
                told.append(f"job {payload.job_label} {payload.status.name}")
            case Partition():
                told.append(f"{payload.partition_ref} {payload.status.name}")
            case JobGraph():
                told.append("graph")
    return told


def test_a_run_tells_its_story_in_order(log: EventLog) -> None:
    run(log)
    told = lines(log)
    assert told[:4] == ["build RECEIVED", "build PLANNING", "build ANALYSIS_COMPLETED", "graph"]
    assert told[4:8] == ["main.a REQUESTED", "main.b REQUESTED", "main.c REQUESTED", "build EXECUTING"]
    assert [line for line in told if "main.a" in line][1:] == [
        "job main.a SCHEDULED",
        "main.a SCHEDULED",
        "job main.a RUNNING",
        "main.a BUILDING",
        "job main.a COMPLETED",
        "main.a AVAILABLE",
    ]
    assert told[-1] == "build COMPLETED"
    assert not any("main.old" in line for line in told)


def test_a_failure_is_told_with_its_message_and_what_was_skipped_never_starts(log: EventLog) -> None:
    run(log, "a")
    told = lines(log)
    assert {"job main.a FAILED", "main.a FAILED", "main.c AVAILABLE"} <= set(told)
    assert [line for line in told if "main.b" in line] == ["main.b REQUESTED", "main.b FAILED"]
    skipped = projections.partition_state(log, "main.b")
    assert skipped is not None
    assert (skipped.message, skipped.job_run_id) == ("main.a failed", None)
    assert told[-1] == "build FAILED"
    messages = {
        entry.event.payload.message
        for entry in projections.events_of_build(log, "build-1")
        if isinstance(entry.event.payload, Job) and entry.event.payload.message
    }
    assert messages == {"it broke"}


def test_each_partition_of_a_batch_that_was_skipped_says_why(log: EventLog) -> None:
    batch = make_item("b", "a").narrowed(("day=1", "day=2"))
    plan = Plan("shop", None, (make_item("a"), batch))
    made = recorder(log)
    made.received("penstock build")
    made.planned(plan)

    def apply(item: Item) -> LoadResult:
        raise UserCodeError("it broke")

    made.finished(RunResult("build-1", Scheduler(apply, (made,)).execute(plan), 1.0))
    for ref in batch.refs:
        state = projections.partition_state(log, ref)
        assert state is not None
        assert (state.status, state.message) == (PartitionStatus.FAILED, "main.a failed")


def test_threads_share_one_recorder(log: EventLog) -> None:
    run(log, threads=4)
    assert sum(line.endswith("AVAILABLE") for line in lines(log)) == 3


def test_the_graph_holds_the_actions_and_the_codes_of_their_reasons(log: EventLog) -> None:
    run(log)
    graph = next(
        entry.event.payload.job_graph
        for entry in projections.events_of_build(log, "build-1")
        if isinstance(entry.event.payload, JobGraph)
    )
    assert isinstance(graph, dict)
    assert graph["datasets"][1] == {
        "dataset": "main.b",
        "action": "recompute",
        "reasons": ["because"],
        "inputs": ["main.a"],
    }


def test_a_run_that_stops_before_the_end_is_closed_as_failed(log: EventLog) -> None:
    made = recorder(log)
    made.received("penstock run")
    made.failed("no project")
    assert lines(log) == ["build RECEIVED", "build PLANNING", "build FAILED"]
    with pytest.raises(IllegalMoveError):
        made.failed("again")


def test_builds_of_dead_processes_are_closed_once_and_others_left_alone(log: EventLog) -> None:
    recorder(log, "dead").received("penstock run")
    run(log)
    for is_open in (True, False):
        assert close_build(log, ManualClock(), "dead", "lock") is is_open
        assert not close_build(log, ManualClock(), "build-1", "lock")
        assert not close_build(log, ManualClock(), "never heard of", "lock")
    assert lines(log, "dead") == ["build RECEIVED", "build PLANNING", "build FAILED"]
    assert lines(log).count("build FAILED") == 0
    state = projections.build_state(log, "dead")
    assert state is not None
    assert state.status is BuildStatus.FAILED
    assert projections.build_state(log, "never heard of") is None


def test_a_commit_without_its_event_is_recorded_by_the_next_run(log: EventLog) -> None:
    days = [replace(make_item("days"), partition=f"n={day}", parts=(f"n={day}",)) for day in "123"]
    dead = recorder(log, "dead")
    dead.received("penstock run")
    dead.planned(Plan("shop", None, (*PLAN.items, *days)))
    for item in (*PLAN.items[:3], *days):
        dead.started(item)
    dead.ended(ItemResult("main.c", PLAN.items[2].dataset, Action.RECOMPUTE, Outcome.PASS, load=LoadResult(1, 1)))
    assert close_build(log, ManualClock(), "dead", "lock")
    refs = find_interrupted(log, ["dead"])
    assert refs == ("main.a", "main.b", "main.days/n=1", "main.days/n=2", "main.days/n=3")
    following = replace(recorder(log, "next"), interrupted=refs)
    following.received("penstock run")
    skipped = make_item("b", "a", action=Action.SKIP)
    following.planned(Plan("shop", None, (make_item("a", action=Action.NONE), skipped, days[1])))
    found = {state.partition_ref: state.status.name for state in projections.list_partitions(log)}
    assert {ref: found[ref] for ref in refs} == {
        "main.a": "AVAILABLE",
        "main.b": "FAILED",
        "main.days/n=1": "AVAILABLE",
        "main.days/n=2": "REQUESTED",
        "main.days/n=3": "AVAILABLE",
    }
    jobs = projections.list_jobs(log, build_request_id="next")
    assert {(job.job_label, job.status.name) for job in jobs} == {("main.a", "COMPLETED"), ("main.days", "COMPLETED")}
    assert all("committed by a build whose process ended" in job.message for job in jobs)


def test_a_dead_build_whose_events_cannot_be_read_does_not_stop_the_next_run(log: EventLog, tmp_path: Path) -> None:
    recorder(log, "dead").received("penstock run")
    with closing(sqlite3.connect(tmp_path / "events.db")) as database:
        database.execute("UPDATE penstock_event SET body = 'damaged'")
        database.commit()
    close_build(log, ManualClock(), "dead", "lock")
    run(log)
    assert lines(log)[-1] == "build COMPLETED"


def test_what_is_rebuilt_is_invalidated_until_it_is_there_again(log: EventLog) -> None:
    plan = Plan(
        "shop",
        None,
        (
            make_item("rebuilt", action=Action.REBUILD, effect=REPLACED),
            make_item("new", action=Action.REBUILD),
            make_item("appended", action=Action.APPEND),
            make_item("evolved", action=Action.EVOLVE),
            make_item("dropped", action=Action.DROP, effect=REPLACED),
        ),
    )
    made = recorder(log)
    made.received("penstock run")
    made.planned(plan)
    invalidated = [e.event.payload for e in log.read() if isinstance(e.event.payload, PartitionInvalidation)]
    assert [(p.partition_ref, p.reason) for p in invalidated] == [
        ("main.rebuilt", "because"),
        ("main.dropped", "because"),
    ]
    made.finished(RunResult("build-1", Scheduler(lambda _: LoadResult(4, 10), (made,)).execute(plan), 1.0))
    states = {name: projections.partition_state(log, f"main.{name}") for name in ("rebuilt", "appended", "dropped")}
    assert {name: bool(state and state.is_available) for name, state in states.items()} == {
        "rebuilt": True,
        "appended": True,
        "dropped": False,
    }


def test_a_job_tells_what_it_wrote_and_a_drop_wrote_nothing(log: EventLog) -> None:
    dropped = make_item("dropped", action=Action.DROP, effect=REPLACED)
    plan = Plan("shop", None, (make_item("kept"), make_item("erased"), dropped))
    loads = {"kept": LoadResult(4, 10), "erased": LoadResult(5, 9, suppressed=2), "dropped": LoadResult(None, 0)}
    made = recorder(log)
    made.received("penstock run")
    made.planned(plan)
    Scheduler(lambda dataset: loads[dataset.dataset.name], (made,)).execute(plan)
    jobs = [entry.event.payload for entry in log.read() if isinstance(entry.event.payload, Job)]
    written = {job.job_label: job.manifests for job in jobs if job.status is JobStatus.COMPLETED}
    assert written == {
        "main.kept": ({"version": 4, "rows": 10},),
        "main.erased": ({"version": 5, "rows": 9, "suppressed": 2},),
        "main.dropped": (),
    }


class Interrupted:
    """A log that Ctrl-C interrupts in the middle of an append: before the events are written, or after."""

    def __init__(self, log: EventLog, *, is_written: bool) -> None:
        self.log = log
        self.is_written = is_written
        self.is_armed = False

    def append(self, events: list[Event]) -> int:
        if not self.is_armed:
            return self.log.append(events)
        self.is_armed = False
        if self.is_written:
            self.log.append(events)
        raise KeyboardInterrupt


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("step", ["received", "planned", "started", "ended", "finished"])
def test_an_interrupt_during_any_append_leaves_nothing_open(log: EventLog, step: str, *, is_written: bool) -> None:
    interrupted = Interrupted(log, is_written=is_written)
    made = recorder(interrupted)  # type: ignore[arg-type]
    plan = Plan("shop", None, (make_item("a"), make_item("b")))
    done = ItemResult("main.a", plan.items[0].dataset, Action.APPEND, Outcome.PASS, load=LoadResult(4, 10))
    result = RunResult("build-1", (done,), 1.0, "stopped by Ctrl-C")
    steps: dict[str, Callable[[], None]] = {
        "received": lambda: made.received("penstock run"),
        "planned": lambda: made.planned(plan),
        "started": lambda: made.started(plan.items[0]),
        "ended": lambda: made.ended(done),
        "finished": lambda: made.finished(result),
    }
    for name, do in steps.items():
        interrupted.is_armed = name == step
        if name == step:
            with pytest.raises(KeyboardInterrupt):
                do()
            break
        do()
    if step == "ended":
        made.ended(done)  # the scheduler settles it again
    made.cancelled(result, 10)
    told = lines(log)
    assert told[-1] == ("build COMPLETED" if step == "finished" else "build CANCELLED")
    assert projections.unfinished_builds(log) == []
    unfinished = (PartitionStatus.REQUESTED, PartitionStatus.SCHEDULED, PartitionStatus.BUILDING)
    assert projections.list_partitions(log, statuses=unfinished) == []
    assert projections.list_jobs(log, statuses=(JobStatus.SCHEDULED, JobStatus.RUNNING)) == []
    assert told.count("job main.a COMPLETED") == (step in {"ended", "finished"})


def test_a_thread_that_nobody_waits_for_records_nothing_after_the_end(log: EventLog) -> None:
    made = recorder(log)
    made.received("penstock run")
    made.planned(PLAN)
    made.started(PLAN.items[0])
    made.cancelled(RunResult("build-1", (), 1.0, "stopped by Ctrl-C"), 10)
    told = lines(log)
    with pytest.raises(PenstockError, match="has ended"):
        made.started(PLAN.items[1])
    assert lines(log) == told


def test_a_stop_before_anything_was_recorded_records_nothing(log: EventLog) -> None:
    recorder(log).cancelled(RunResult("build-1", (), 1.0, "stopped by Ctrl-C"), 10)
    assert log.read() == []


def test_a_slow_log_does_not_hold_up_the_end(log: EventLog) -> None:
    made = recorder(log)
    made.received("penstock run")
    release = threading.Event()
    made.log = SimpleNamespace(append=lambda _: release.wait(20))  # type: ignore[assignment]
    began = time.monotonic()
    made.cancelled(RunResult("build-1", (), 1.0, "stopped by Ctrl-C"), 0.1)
    assert time.monotonic() - began < 5
    release.set()
