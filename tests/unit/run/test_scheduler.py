"""Executing a plan: order, parallelism, and failures that stop only what needs the failed one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import make_plan
from penstock.errors import Location, UserCodeError
from penstock.model.plan import Action, DatasetPlan, Plan, Problem
from penstock.model.results import DatasetResult, ExpectationOutcome, LoadResult, Outcome
from penstock.model.spec import OnViolation
from penstock.run.scheduler import Scheduler, settle

DONE = LoadResult(1, 10)


@dataclass
class Log:
    """Remembers what a listener is told."""

    lines: list[str] = field(default_factory=list)

    def started(self, plan: DatasetPlan) -> None:
        self.lines.append(f"start {plan.name.name}")

    def ended(self, result: DatasetResult) -> None:
        self.lines.append(f"{result.outcome.value} {result.name.name}")


def make(*datasets: DatasetPlan) -> Plan:
    return Plan("shop", None, datasets)


def run(plan: Plan, apply: Callable[[DatasetPlan], LoadResult] | None = None, *, threads: int = 1) -> tuple[str, Log]:
    log = Log()
    results = Scheduler(apply or (lambda _: DONE), (log,), threads).execute(plan)
    assert [result.name for result in results] == [dataset.name for dataset in plan.datasets]
    return " ".join(result.outcome.value for result in results), log


def fail(*names: str, error: Exception | None = None) -> Callable[[DatasetPlan], LoadResult]:
    def apply(plan: DatasetPlan) -> LoadResult:
        if plan.name.name in names:
            raise error or UserCodeError("it broke")
        return DONE

    return apply


CHAIN = make(make_plan("a"), make_plan("b", "a"), make_plan("c", "b"), make_plan("x"), make_plan("y", "x"))


def test_each_dataset_comes_after_all_it_reads() -> None:
    outcome, log = run(CHAIN)
    assert outcome == "pass pass pass pass pass"
    for earlier, later in (("a", "b"), ("b", "c"), ("x", "y")):
        assert log.lines.index(f"pass {earlier}") < log.lines.index(f"start {later}")


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    ("failing", "outcomes"),
    [
        ("a", "error skip skip pass pass"),
        ("b", "pass error skip pass pass"),
        ("c", "pass pass error pass pass"),
        ("a x", "error skip skip error skip"),
    ],
)
def test_a_failure_stops_only_what_depends_on_it(failing: str, outcomes: str, threads: int) -> None:
    outcome, log = run(CHAIN, fail(*failing.split()), threads=threads)
    assert outcome == outcomes
    assert {line for line in log.lines if line.startswith("skip")}.isdisjoint({"skip a", "skip x"})


def test_a_skip_says_because_of_what() -> None:
    results = Scheduler(fail("a")).execute(CHAIN)
    reasons = [(result.action, [(reason.code, reason.text) for reason in result.reasons]) for result in results[1:3]]
    assert reasons == [
        (Action.SKIP, [("upstream_failed", "main.a failed")]),
        (Action.SKIP, [("upstream_failed", "main.b was skipped")]),
    ]


def test_an_error_keeps_its_code_hint_and_line() -> None:
    error = UserCodeError("it broke", hint="mend it", location=Location("a.py", 3))
    problem = Scheduler(fail("a", error=error)).execute(make(make_plan("a")))[0].problem
    assert problem == Problem("user_code", "it broke", "mend it", Location("a.py", 3))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("k"), "main.a: KeyError: 'k'"),
        (RuntimeError("first\nsecond"), "main.a: RuntimeError: first"),
        (RuntimeError(), "main.a: RuntimeError"),
        (RuntimeError("x" * 1000), "main.a: RuntimeError: " + "x" * 386),
    ],
)
def test_an_unexpected_exception_of_one_dataset_does_not_stop_the_others(error: Exception, message: str) -> None:
    results = Scheduler(fail("a", error=error)).execute(CHAIN)
    assert [result.outcome.value for result in results] == ["error", "skip", "skip", "pass", "pass"]
    assert results[0].problem == Problem("internal", message)


def test_what_the_plan_refused_counts_as_failed_for_its_readers() -> None:
    refused = make_plan("a", action=Action.SKIP, problem=Problem("raw_file", "broken"))
    waiting = make_plan("s", action=Action.SKIP)
    outcome, log = run(make(refused, make_plan("b", "a"), waiting, make_plan("t", "s"), make_plan("x")))
    assert outcome == "error skip skip skip pass"
    assert [line for line in log.lines if line.startswith("start")] == ["start x"]


def test_datasets_without_work_end_at_once_and_do_not_hold_up_readers() -> None:
    outcome, log = run(make(make_plan("a", action=Action.NONE), make_plan("b", "a")))
    assert outcome == "no-op pass"
    assert log.lines == ["no-op a", "start b", "pass b"]


def test_inputs_outside_the_plan_are_not_waited_for() -> None:
    assert run(make(make_plan("b", "a")))[0] == "pass"


def test_broken_expectations_are_a_warning_with_the_load() -> None:
    load = LoadResult(1, 10, (ExpectationOutcome("paid", OnViolation.WARN, 2),))
    (result,) = Scheduler(lambda _: load).execute(make(make_plan("a")))
    assert (result.outcome, result.load) == (Outcome.WARN, load)


def test_independent_datasets_run_side_by_side() -> None:
    meeting = threading.Barrier(3, timeout=10)

    def apply(plan: DatasetPlan) -> LoadResult:
        meeting.wait()
        return DONE

    assert run(make(*map(make_plan, "abc")), apply, threads=3)[0] == "pass pass pass"


def test_no_more_run_at_once_than_there_are_threads() -> None:
    now, most, lock = 0, 0, threading.Lock()

    def apply(plan: DatasetPlan) -> LoadResult:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.005)
        with lock:
            now -= 1
        return DONE

    run(make(*map(make_plan, "abcdefgh")), apply, threads=2)
    assert most == 2


def test_a_slow_dataset_does_not_hold_up_a_chain_beside_it() -> None:
    end = threading.Event()

    def apply(plan: DatasetPlan) -> LoadResult:
        if plan.name.name == "slow":
            assert end.wait(10)
        elif plan.name.name == "c":
            end.set()
        return DONE

    assert run(make(make_plan("slow"), *CHAIN.datasets[:3]), apply, threads=2)[0] == "pass pass pass pass"


def test_work_sees_the_context_of_the_caller() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("seen")
    seen: list[str] = []

    def apply(plan: DatasetPlan) -> LoadResult:
        seen.append(variable.get())
        return DONE

    run(make(make_plan("a"), make_plan("b")), apply, threads=2)
    assert seen == ["seen", "seen"]


def test_the_time_of_a_dataset_is_measured() -> None:
    ticks = iter([5.0, 7.5])
    scheduler = Scheduler(lambda _: DONE, clock=lambda: next(ticks))
    assert scheduler.execute(make(make_plan("a")))[0].seconds == 2.5


def test_a_plan_without_work_settles_without_threads() -> None:
    log = Log()
    refused = make_plan("b", action=Action.SKIP, problem=Problem("raw_file", "broken"))
    results = settle(make(make_plan("a", action=Action.NONE), refused, make_plan("c", action=Action.SKIP)), (log,))
    assert [result.outcome.value for result in results] == ["no-op", "error", "skip"]
    assert log.lines == ["no-op a", "error b", "skip c"]


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_in_any_graph_a_dataset_runs_exactly_when_nothing_above_it_failed(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    reads = [data.draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set() for i in range(count)]
    failing = data.draw(st.sets(st.integers(0, count - 1)))
    plan = make(*(make_plan(f"d{i}", " ".join(f"d{r}" for r in sorted(reads[i]))) for i in range(count)))
    outcome, _ = run(plan, fail(*(f"d{i}" for i in failing)), threads=data.draw(st.sampled_from([1, 3])))
    expected: list[str] = []
    for index in range(count):
        blocked = any(expected[read] != "pass" for read in reads[index])
        expected.append("skip" if blocked else "error" if index in failing else "pass")
    assert outcome.split() == expected
