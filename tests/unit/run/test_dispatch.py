"""What the dispatcher decides: order, turns of a table, retries, timeouts, cancels; and what a large graph costs."""

from __future__ import annotations

import gc
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from builders import make_item
from penstock.errors import PenstockError, UserCodeError
from penstock.eventlog.memory import MemoryEventLog
from penstock.model.clock import ManualClock
from penstock.model.events import Job
from penstock.model.partitions.mappings import Window, intersect
from penstock.model.partitions.refs import to_part
from penstock.model.partitions.schemes import hourly
from penstock.model.plan import Item, Plan
from penstock.model.recording import BuildRecorder
from penstock.model.results import LoadResult
from penstock.run.dispatch import Dispatch, Limits, RetryRule, Skip, Stage, Task, Verdict
from penstock.run.recording import RunRecorder
from penstock.run.scheduler import Scheduler


def ids(tasks: list[Task]) -> str:
    return " ".join(task.id for task in tasks)


def test_tasks_start_in_the_order_of_the_graph_as_far_as_there_is_room() -> None:
    dispatch = Dispatch([Task("a", "a"), Task("b", "b", ("a",)), Task("c", "c"), Task("d", "d")])
    assert ids(dispatch.start(0, 2)) == "a c"
    assert dispatch.finish("a", Verdict.SUCCEEDED, 0) == []
    assert ids(dispatch.start(0, 1)) == "b"
    assert ids(dispatch.start(0, 0)) == ""
    assert ids(dispatch.start(0, 9)) == "d"


def test_nobody_waits_for_another_attempt_of_a_cancelled_task() -> None:
    dispatch = Dispatch([Task("a", "a", limits=Limits(RetryRule(3, 60.0))), Task("b", "b")])
    assert ids(dispatch.start(0, 1)) == "a"
    dispatch.finish("a", Verdict.RETRYABLE, 0)
    assert dispatch.next_look() == 60
    assert ids(dispatch.cancel(["a"])[0]) == "a"
    assert dispatch.next_look() is None


def test_what_is_better_done_later_starts_only_when_there_is_nothing_else() -> None:
    dispatch = Dispatch([Task(name, name) for name in "abcd"])
    later = {"a", "c"}
    assert ids(dispatch.start(0, 1, later.__contains__)) == "b"
    assert ids(dispatch.start(0, 2, later.__contains__)) == "d a"
    later.clear()
    assert ids(dispatch.start(0, 2, later.__contains__)) == "c"


def test_the_search_for_something_better_is_short() -> None:
    asked: list[str] = []

    def is_later(name: str) -> bool:
        asked.append(name)
        return True

    dispatch = Dispatch(Task(f"t{number}", "t", is_parallel=True) for number in range(10_000))
    assert ids(dispatch.start(0, 1, is_later)) == "t0"
    assert len(asked) < 500
    assert ids(dispatch.start(0, 2, is_later)) == "t1 t2"


def test_the_turn_of_a_cancelled_task_goes_to_the_next_one_of_its_table() -> None:
    dispatch = Dispatch([Task(name, "table") for name in "abc"])
    assert ids(dispatch.start(0, 9)) == "a"
    dispatch.cancel(["b"])
    dispatch.finish("a", Verdict.SUCCEEDED, 0)
    assert ids(dispatch.start(0, 9)) == "c"


def test_a_group_is_waited_for_as_a_whole() -> None:
    parts = [Task(f"t/{name}", "t", (), is_parallel=True) for name in "pq"]
    dispatch = Dispatch([*parts, Task("r", "r", ("t",)), Task("s", "s", ("t/p",))])
    dispatch.start(0, 9)
    dispatch.finish("t/p", Verdict.SUCCEEDED, 0)
    assert ids(dispatch.start(0, 9)) == "s"
    assert [(skip.task.id, skip.because) for skip in dispatch.finish("t/q", Verdict.FAILED, 0)] == [("r", ("t/q",))]


def test_tasks_that_wait_for_each_other_are_left_over_and_nothing_is_due() -> None:
    dispatch = Dispatch([Task("t/1", "t"), Task("u", "u", ("t",)), Task("t/2", "t", ("u",))])
    assert ids(dispatch.start(0, 9)) == "t/1"
    dispatch.finish("t/1", Verdict.SUCCEEDED, 0)
    assert dispatch.start(0, 9) == []
    assert dispatch.next_look() is None
    assert [stage.value for _, stage in dispatch] == ["succeeded", "waiting", "waiting"]


def test_tasks_of_a_table_that_want_to_be_alone_take_turns() -> None:
    dispatch = Dispatch([Task("t/1", "t"), Task("t/2", "t", (), is_parallel=True), Task("t/3", "t"), Task("u", "u")])
    assert ids(dispatch.start(0, 9)) == "t/1 u"
    dispatch.finish("t/1", Verdict.SUCCEEDED, 0)
    assert ids(dispatch.start(0, 9)) == "t/2"
    dispatch.finish("t/2", Verdict.SUCCEEDED, 0)
    assert ids(dispatch.start(0, 9)) == "t/3"


def test_a_failure_skips_everything_below_and_says_because_of_what() -> None:
    dispatch = Dispatch([Task("a", "a"), Task("b", "b"), Task("c", "c", ("a", "b")), Task("d", "d", ("c", "outside"))])
    dispatch.start(0, 9)
    skips = dispatch.finish("b", Verdict.FAILED, 0)
    assert skips == [Skip(dispatch.tasks["c"], ("b",)), Skip(dispatch.tasks["d"], ("c",))]
    assert dispatch.finish("a", Verdict.SUCCEEDED, 0) == []
    assert [stage.value for _, stage in dispatch] == ["succeeded", "failed", "skipped", "skipped"]
    assert dispatch.next_look() is None


def test_retries_wait_longer_each_time_up_to_a_limit() -> None:
    rule = RetryRule(attempts=5, first_delay=1, factor=3, longest_delay=10)
    assert [rule.delay_after(attempt) for attempt in (1, 2, 3, 4, 5000)] == [1, 3, 9, 10, 10]
    dispatch = Dispatch([Task("a", "a", limits=Limits(RetryRule(2, 5)))])
    dispatch.start(100, 1)
    dispatch.finish("a", Verdict.RETRYABLE, 101)
    assert dispatch.stage("a") is Stage.WAITING
    assert dispatch.next_look() == 106
    assert ids(dispatch.start(105.9, 1)) == ""
    assert ids(dispatch.start(106, 1)) == "a"
    dispatch.finish("a", Verdict.RETRYABLE, 107)
    assert (dispatch.stage("a"), dispatch.attempts("a")) == (Stage.FAILED, 2)


def test_an_attempt_that_takes_too_long_is_overdue() -> None:
    dispatch = Dispatch([Task("a", "a", limits=Limits(timeout=5)), Task("b", "b", limits=Limits(timeout=3))])
    dispatch.start(0, 9)
    assert dispatch.next_look() == 3
    assert ids(dispatch.overdue(2.9)) == ""
    assert ids(dispatch.overdue(5)) == "a b"


def test_after_a_cancel_nothing_starts_and_what_runs_may_still_succeed() -> None:
    dispatch = Dispatch([Task("a", "a"), Task("b", "b", ("a",)), Task("x", "x", limits=Limits(RetryRule(3)))])
    dispatch.start(0, 9)
    dispatch.finish("x", Verdict.RETRYABLE, 0)
    cancelled, skips = dispatch.cancel()
    assert (ids(cancelled), skips) == ("b x", [])
    assert dispatch.finish("a", Verdict.SUCCEEDED, 1) == []
    assert dispatch.start(1000, 9) == []
    assert [stage.value for _, stage in dispatch] == ["succeeded", "cancelled", "cancelled"]


def test_what_reads_a_cancelled_task_is_skipped() -> None:
    dispatch = Dispatch([Task("a", "a"), Task("b", "b", ("a",)), Task("c", "c")])
    cancelled, skips = dispatch.cancel(["a"])
    assert ids(cancelled) == "a"
    assert [(skip.task.id, skip.because) for skip in skips] == [("b", ("a",))]
    assert ids(dispatch.start(0, 9)) == "c"


@pytest.mark.parametrize("is_parallel", [True, False])
def test_a_large_graph_costs_its_tasks_and_edges_once(is_parallel: bool) -> None:
    count = 25_000
    begin = time.process_time()
    tasks = [Task(f"a/{n}", "a", (), is_parallel) for n in range(count)]
    tasks += [Task(f"b/{n}", "b", (f"a/{n}",), is_parallel) for n in range(count)]
    dispatch = Dispatch(tasks)
    assert time.process_time() - begin < 1.0
    ended = 0
    while started := dispatch.start(0, 4):
        for task in started:
            dispatch.finish(task.id, Verdict.SUCCEEDED, 0)
            ended += 1
    assert ended == 2 * count
    assert time.process_time() - begin < 5.0


def test_the_work_of_a_plan_grows_with_its_partitions_and_not_faster() -> None:
    """Fifty thousand take about ten times as long as five thousand; the square would be a hundred times."""
    gc.disable()  # what other tests of this process have left is not to be looked through
    try:
        few, many = (min(_seconds_to_begin(count) for _ in range(3)) for count in (2_500, 25_000))
    finally:
        gc.enable()
    assert many < 30 * few


def _seconds_to_begin(count: int) -> float:
    """For two hourly tables, one of which reads the same hour and the one before of the other."""
    hours, window = hourly("2021-01-01T00"), Window(before=1)
    existing = hours.existing(datetime(2021, 1, 1, tzinfo=UTC) + timedelta(hours=count))
    begin = time.process_time()
    parts = {ordinal: to_part("hour", hours.write(ordinal)) for ordinal in existing}
    tasks = [Task(f"main.a/{part}", "main.a", (), is_parallel=True) for part in parts.values()]
    for ordinal, part in parts.items():
        reads = intersect(window.reads(hours, hours, ordinal), existing)
        tasks.append(
            Task(f"main.b/{part}", "main.b", tuple(f"main.a/{parts[each]}" for each in reads), is_parallel=True)
        )
    dispatch = Dispatch(tasks)
    assert len(dispatch.tasks) == 2 * count
    assert len(dispatch.start(0, 4)) == 4
    return time.process_time() - begin


class FlakyError(PenstockError):
    code = "error"
    retryable = True


def run(apply: object, limits: Limits, *names: str, threads: int = 1) -> tuple[list[str], list[Job]]:
    """Run items in real threads with a real recorder; gives outcomes and what the log says about job runs."""
    plan = Plan("p", None, tuple(map(make_item, names)))
    with MemoryEventLog(ManualClock()) as log:
        recorder = RunRecorder(log, BuildRecorder(ManualClock(), "b"))
        recorder.received("")
        recorder.planned(plan)
        results = Scheduler(apply, (recorder,), threads, limits=lambda _: limits).execute(plan)  # type: ignore[arg-type]
        payloads = [entry.event.payload for entry in log.read()]
    return [result.outcome.value for result in results], [each for each in payloads if isinstance(each, Job)]


def test_a_retryable_error_is_tried_again_as_another_attempt_of_the_same_job_run() -> None:
    calls: list[str] = []

    def apply(item: Item) -> LoadResult:
        calls.append(item.id)
        if len(calls) < 3:
            raise FlakyError("not now")
        return LoadResult(1, 1)

    outcomes, jobs = run(apply, Limits(RetryRule(3, 0.01)), "a")
    assert outcomes == ["pass"]
    assert len({job.job_run_id for job in jobs}) == 1
    assert [(job.status.name, job.config) for job in jobs[1:]] == [
        ("RUNNING", None),
        ("RUNNING", {"attempt": 2}),
        ("RUNNING", {"attempt": 3}),
        ("COMPLETED", None),
    ]


def test_an_error_that_a_retry_cannot_help_is_not_tried_again() -> None:
    calls: list[str] = []

    def apply(item: Item) -> LoadResult:
        calls.append(item.id)
        raise UserCodeError("broken")

    assert run(apply, Limits(RetryRule(3, 0.01)), "a")[0] == ["error"]
    assert len(calls) == 1


def test_work_that_takes_too_long_fails_and_the_rest_goes_on_in_its_place() -> None:
    release = threading.Event()

    def apply(item: Item) -> LoadResult:
        if item.dataset.name == "slow":
            release.wait(20)
        return LoadResult(1, 1)

    begin = time.monotonic()
    outcomes, jobs = run(
        apply, Limits(timeout=2), "slow", "quick", "other"
    )  # the quick ones may wait for a busy machine
    release.set()
    assert outcomes == ["error", "pass", "pass"]
    assert time.monotonic() - begin < 15
    assert [job.message for job in jobs if job.status.name == "FAILED"] == ["main.slow took longer than 2 s"]


def test_a_thousand_jobs_cost_little() -> None:
    begin = time.process_time()
    outcomes, jobs = run(lambda _: LoadResult(1, 1), Limits(), *(f"d{n}" for n in range(1000)), threads=4)
    assert outcomes == ["pass"] * 1000
    assert len(jobs) == 3000
    assert (time.process_time() - begin) / 1000 < 0.015
