"""`penstock.Pipeline`: order, failures, retries, keys, and what the event log says afterwards."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock import pipelines as dp
from penstock.errors import DefinitionError, StoppedError
from penstock.eventlog import projections
from penstock.eventlog.memory import MemoryEventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.build_history import find_illegal_moves, replay
from penstock.model.clock import ManualClock
from penstock.model.recording import BuildRecorder
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus
from penstock.plain_steps.pipeline import Pipeline
from penstock.plain_steps.values import PipelineError, StepStatus


def failing(error: BaseException | None = None) -> Callable[[], None]:
    def fail() -> None:
        raise error or RuntimeError("it broke")

    return fail


def shown(pipeline: Pipeline) -> str:
    return " ".join(f"{name}={status}" for name, status in pipeline.statuses.items())


def test_steps_run_after_what_they_depend_on() -> None:
    seen: list[str] = []
    pipeline = Pipeline("nightly", parallel=2)
    pipeline.add_step("report", lambda: seen.append("report"), depends_on=["load"])
    pipeline.add_step("load", lambda: seen.append("load"), ["extract"]).add_step(
        "extract", lambda: seen.append("extract")
    )
    assert shown(pipeline) == "report=pending load=pending extract=pending"
    assert pipeline.run()
    assert seen == ["extract", "load", "report"]
    assert shown(pipeline) == "report=success load=success extract=success"
    assert pipeline.run()
    assert len(seen) == 6, "without a key, every step runs every time"


def test_a_failure_skips_what_depends_on_it_and_keeps_the_error() -> None:
    error = ValueError("no rows")
    pipeline = Pipeline("nightly").add_step("a", failing(error)).add_step("b", lambda: None, ["a"])
    pipeline.add_step("c", lambda: None)
    assert not pipeline.run()
    assert shown(pipeline) == "a=failed b=skipped c=success"
    assert pipeline.errors == {"a": error}


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_exit_of_a_step_fails_only_that_step(error: BaseException) -> None:
    pipeline = Pipeline("nightly").add_step("a", failing(error)).add_step("b", lambda: None)
    assert not pipeline.run()
    assert shown(pipeline) == "a=failed b=success"


def test_steps_that_do_not_depend_on_each_other_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=10)
    pipeline = Pipeline("nightly", parallel=3)
    for name in "abc":
        pipeline.add_step(name, meeting.wait)
    assert pipeline.run()


def test_a_step_is_tried_again_and_can_take_too_long() -> None:
    calls: list[int] = []
    release = threading.Event()

    def flaky() -> None:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("not now")

    pipeline = Pipeline("nightly")
    pipeline.add_step("flaky", flaky, retries=2, retry_delay=0.01)
    pipeline.add_step("slow", lambda: release.wait(20), timeout=0.2)
    assert not pipeline.run()
    release.set()
    assert shown(pipeline) == "flaky=success slow=failed"
    assert {name: str(error) for name, error in pipeline.errors.items()} == {
        "slow": "nightly.slow took longer than 0.2 s"
    }


def test_what_happened_is_in_the_log() -> None:
    with MemoryEventLog(ManualClock()) as log:
        pipeline = Pipeline("nightly", event_log=log, clock=ManualClock())
        pipeline.add_step("load orders", lambda: None).add_step("b", failing(), ["load orders"])
        pipeline.add_step("c", lambda: None, ["b"])
        assert not pipeline.run()
        events = [entry.event for entry in log.read()]
        (build,) = replay(events).values()
        assert find_illegal_moves(events) == []
        assert build.status is BuildStatus.FAILED
        assert build.partitions == {
            "nightly.load orders": PartitionStatus.AVAILABLE,
            "nightly.b": PartitionStatus.FAILED,
            "nightly.c": PartitionStatus.FAILED,
        }
        assert [(job.label, job.status) for job in build.jobs.values()] == [
            ("nightly.load orders", JobStatus.COMPLETED),
            ("nightly.b", JobStatus.FAILED),
        ]
        state = projections.partition_state(log, "nightly.c")
        assert state is not None
        assert state.message == "nightly.b failed"


def test_with_a_key_what_is_recorded_does_not_run_again(tmp_path: Path) -> None:
    uri, seen, is_broken = f"sqlite:///{tmp_path}/nightly.db", list[str](), [True]

    def report() -> None:
        seen.append("report")
        if is_broken[0]:
            raise RuntimeError("printer")

    def run(key: str | None) -> bool:
        pipeline = Pipeline("nightly", event_log=uri)
        pipeline.add_step("extract", lambda: seen.append("extract")).add_step("report", report, ["extract"])
        return pipeline.run(key)

    assert not run("2024-01-01")
    is_broken[0] = False
    assert run("2024-01-01")
    assert seen == ["extract", "report", "report"]
    assert run("2024-01-01")
    assert len(seen) == 3
    assert run("2024/01/02 *")
    assert run(None)
    assert seen[3:] == ["extract", "report"] * 2
    with open_event_log(uri) as log:
        refs = {state.partition_ref for state in projections.list_partitions(log)}
    assert "nightly.extract/run=2024%2F01%2F02 %2A" in refs


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: p.add_step("a", print, ["b"]).add_step("b", print, ["c"]).add_step("c", print, ["a"]), "-> "),
        (lambda p: p.add_step("a", print, ["a"]), "a -> a"),
        (
            lambda p: p.add_step("load", print).add_step("x", print, ["lod"]),
            "'lod', which does not exist; did you mean",
        ),
        (lambda p: p.add_step("a", print).add_step("a", print), "two steps called 'a'"),
        (lambda p: p.add_step("a", print, "b"), "must be a list of names"),
        (lambda p: p.add_step("a/b", print), "'a/b' is not a name of a step"),
        (lambda p: p.add_step("", print), "'' is not a name of a step"),
        (lambda p: p.add_step("a", print, retries=-1), "cannot be negative"),
        (lambda p: p.add_step("a", print, timeout=0), "timeout must be more than 0"),
        (lambda _: Pipeline("a*"), "'a*' is not a name of a pipeline"),
        (lambda _: Pipeline("a", parallel=0), "parallel must be at least 1"),
    ],
)
def test_steps_that_do_not_fit_together_are_refused_before_anything_runs(
    make: Callable[[Pipeline], Pipeline], message: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        make(Pipeline("nightly")).run()
    assert message in str(caught.value)


def test_an_async_function_is_refused_because_nobody_would_await_it() -> None:
    async def fetch(_: object = None) -> None: ...

    class Later:
        async def __call__(self) -> None: ...

    for step in (fetch, functools.partial(fetch, 1), Later()):
        with pytest.raises(PipelineError, match="step a: the function is asynchronous") as caught:
            Pipeline("p").add_step("a", step)
        assert "asyncio.run" in (caught.value.hint or "")
    with pytest.raises(PipelineError, match="backfill f: the function is asynchronous"):
        penstock.backfill_date_range("2024-01-01", "2024-01-02", fetch, name="f")
    with pytest.raises(PipelineError, match="step a: None is not a function"):
        Pipeline("p").add_step("a", None)  # type: ignore[arg-type]


def test_keys_and_days_may_be_dates(tmp_path: Path) -> None:
    ran: list[object] = []
    pipeline = Pipeline("p", event_log=f"sqlite:///{tmp_path}/log.db").add_step("a", lambda: ran.append(1))
    assert pipeline.run(key=date(2024, 1, 31))
    assert pipeline.run(key="2024-01-31")
    assert ran == [1]
    with pytest.raises(PipelineError, match="the key of a run must be a text or a date, not 5"):
        pipeline.run(key=5)  # type: ignore[arg-type]
    days = penstock.backfill_date_range(date(2024, 1, 1), datetime(2024, 1, 2, 12), ran.append, name="f")
    assert days.done == (date(2024, 1, 1), date(2024, 1, 2))
    assert dp.daily(start=date(2024, 1, 1), end=datetime(2024, 2, 1, 5)) == dp.daily("2024-01-01", "2024-02-01")
    assert dp.monthly(start=date(2024, 1, 15)) == dp.monthly("2024-01")
    assert dp.hourly(start=datetime(2024, 1, 1, 5)) == dp.hourly("2024-01-01T05")
    with pytest.raises(DefinitionError, match="must be a text, a date or a time, not int"):
        dp.daily(start=20240101)  # type: ignore[arg-type]


def test_a_cycle_is_shown_as_a_path() -> None:
    pipeline = Pipeline("nightly")
    for name, reads in (("a", "b"), ("b", "c"), ("c", "a")):
        pipeline.add_step(name, print, [reads])
    with pytest.raises(PipelineError, match=r"(a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c)"):
        pipeline.run()


def test_an_interrupt_cancels_what_has_not_begun() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    release = threading.Event()

    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)
        release.wait(5)

    with MemoryEventLog(ManualClock()) as log:
        pipeline = Pipeline("nightly", event_log=log).add_step("a", interrupt).add_step("b", lambda: None, ["a"])
        threading.Timer(1.5, release.set).start()
        with pytest.raises(StoppedError):
            pipeline.run()
        signal.signal(signal.SIGINT, before)
        (build,) = replay(entry.event for entry in log.read()).values()
    assert build.status is BuildStatus.CANCELLED
    assert pipeline.statuses["b"] is StepStatus.CANCELLED


def test_a_cancel_lets_what_is_running_end_and_starts_nothing_more() -> None:
    with MemoryEventLog(ManualClock()) as log:

        def cancel() -> None:
            (build,) = projections.list_builds(log).builds
            log.append([BuildRecorder(ManualClock(), build.build_request_id).cancel_build("enough")])
            threading.Event().wait(1.5)  # it is seen by then

        pipeline = Pipeline("nightly", event_log=log).add_step("a", cancel).add_step("b", lambda: None, ["a"])
        assert not pipeline.run()
        (build,) = replay(entry.event for entry in log.read()).values()
    assert build.status is BuildStatus.CANCELLED
    assert pipeline.statuses == {"a": StepStatus.SUCCESS, "b": StepStatus.CANCELLED}


@settings(max_examples=40)
@given(data=st.data())
def test_in_any_graph_a_step_runs_exactly_when_everything_above_it_succeeded(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 7))
    reads = [data.draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set() for i in range(count)]
    broken = data.draw(st.sets(st.integers(0, count - 1)))
    pipeline = Pipeline("p", parallel=data.draw(st.sampled_from([1, 3])))
    for number in data.draw(st.permutations(range(count))):
        func = failing() if number in broken else lambda: None
        pipeline.add_step(f"s{number}", func, [f"s{read}" for read in sorted(reads[number])])
    is_good = pipeline.run()
    expected: list[str] = []
    for number in range(count):
        blocked = any(expected[read] != "success" for read in reads[number])
        expected.append("skipped" if blocked else "failed" if number in broken else "success")
    assert [str(pipeline.statuses[f"s{number}"]) for number in range(count)] == expected
    assert is_good is (set(expected) == {"success"})


def test_it_is_offered_by_the_package_and_needs_no_spark() -> None:
    assert penstock.Pipeline is Pipeline
    program = "import sys, penstock; penstock.Pipeline('p').run(); assert not {'pyspark', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("key", ["", "k" * 1200])
def test_a_key_that_the_log_cannot_name_is_refused_before_anything_runs(key: str) -> None:
    ran: list[str] = []
    pipeline = Pipeline("nightly").add_step("extract", lambda: ran.append("extract"))
    with pytest.raises(PipelineError, match="pipeline nightly: the key is"):
        pipeline.run(key=key)
    assert ran == []
