"""What a run writes to a real event log, and how builds of dead processes are closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import make_item
from penstock.errors import UserCodeError
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import ManualClock
from penstock.model.events import BuildRequest, Job, JobGraph, Partition, PartitionInvalidation
from penstock.model.plan import Action, Effect, Item, Plan
from penstock.model.recording import BuildRecorder
from penstock.model.results import LoadResult, RunResult
from penstock.model.status import BuildStatus, IllegalMoveError, JobStatus
from penstock.run.recording import RunRecorder, close_dead_builds
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
    assert [line for line in told if "main.b" in line] == ["main.b REQUESTED"]
    assert told[-1] == "build FAILED"
    messages = {
        entry.event.payload.message
        for entry in projections.events_of_build(log, "build-1")
        if isinstance(entry.event.payload, Job) and entry.event.payload.message
    }
    assert messages == {"it broke"}


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
    for _ in range(2):
        close_dead_builds(log, ManualClock(), ["dead", "build-1", "never heard of"])
    assert lines(log, "dead") == ["build RECEIVED", "build PLANNING", "build FAILED"]
    assert lines(log).count("build FAILED") == 0
    state = projections.build_state(log, "dead")
    assert state is not None
    assert state.status is BuildStatus.FAILED
    assert projections.build_state(log, "never heard of") is None


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
    plan = Plan("shop", None, (make_item("kept"), make_item("dropped", action=Action.DROP, effect=REPLACED)))
    loads = {"kept": LoadResult(4, 10), "dropped": LoadResult(None, 0)}
    made = recorder(log)
    made.received("penstock run")
    made.planned(plan)
    Scheduler(lambda dataset: loads[dataset.dataset.name], (made,)).execute(plan)
    jobs = [entry.event.payload for entry in log.read() if isinstance(entry.event.payload, Job)]
    written = {job.job_label: job.manifests for job in jobs if job.status is JobStatus.COMPLETED}
    assert written == {"main.kept": ({"version": 4, "rows": 10},), "main.dropped": ()}
