"""Executing a plan: order, parallelism, and failures that stop only what needs the failed one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import make_item
from penstock.errors import Location, StoppedError, UserCodeError
from penstock.model.plan import Action, Item, Plan, Problem
from penstock.model.results import ExpectationOutcome, ItemResult, LoadResult, Outcome
from penstock.model.spec import OnViolation
from penstock.run.scheduler import Scheduler, settle

DONE = LoadResult(1, 10)


@dataclass
class Log:
    """Remembers what a listener is told."""

    lines: list[str] = field(default_factory=list)

    def started(self, plan: Item) -> None:
        self.lines.append(f"start {plan.dataset.name}")

    def ended(self, result: ItemResult) -> None:
        self.lines.append(f"{result.outcome.value} {result.dataset.name}")


def make(*datasets: Item) -> Plan:
    return Plan("shop", None, datasets)


def run(plan: Plan, apply: Callable[[Item], LoadResult] | None = None, *, threads: int = 1) -> tuple[str, Log]:
    log = Log()
    results = Scheduler(apply or (lambda _: DONE), (log,), threads).execute(plan)
    assert [result.dataset for result in results] == [dataset.dataset for dataset in plan.items]
    return " ".join(result.outcome.value for result in results), log


def fail(*names: str, error: BaseException | None = None) -> Callable[[Item], LoadResult]:
    def apply(plan: Item) -> LoadResult:
        if plan.dataset.name in names:
            raise error or UserCodeError("it broke")
        return DONE

    return apply


CHAIN = make(make_item("a"), make_item("b", "a"), make_item("c", "b"), make_item("x"), make_item("y", "x"))


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
    error = UserCodeError("it broke", hint="fix it", location=Location("a.py", 3))
    problem = Scheduler(fail("a", error=error)).execute(make(make_item("a")))[0].problem
    assert problem == Problem("user_code", "it broke", "fix it", Location("a.py", 3))


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
    refused = make_item("a", action=Action.SKIP, problem=Problem("raw_file", "broken"))
    waiting = make_item("s", action=Action.SKIP)
    outcome, log = run(make(refused, make_item("b", "a"), waiting, make_item("t", "s"), make_item("x")))
    assert outcome == "error skip skip skip pass"
    assert [line for line in log.lines if line.startswith("start")] == ["start x"]


def test_datasets_without_work_end_at_once_and_do_not_hold_up_readers() -> None:
    outcome, log = run(make(make_item("a", action=Action.NONE), make_item("b", "a")))
    assert outcome == "no-op pass"
    assert log.lines == ["no-op a", "start b", "pass b"]


def test_inputs_outside_the_plan_are_not_waited_for() -> None:
    assert run(make(make_item("b", "a")))[0] == "pass"


def test_broken_expectations_are_a_warning_with_the_load() -> None:
    load = LoadResult(1, 10, (ExpectationOutcome("paid", OnViolation.WARN, 2),))
    (result,) = Scheduler(lambda _: load).execute(make(make_item("a")))
    assert (result.outcome, result.load) == (Outcome.WARN, load)


def test_independent_datasets_run_side_by_side() -> None:
    meeting = threading.Barrier(3, timeout=10)

    def apply(plan: Item) -> LoadResult:
        meeting.wait()
        return DONE

    assert run(make(*map(make_item, "abc")), apply, threads=3)[0] == "pass pass pass"


def test_no_more_run_at_once_than_there_are_threads() -> None:
    now, most, lock = 0, 0, threading.Lock()

    def apply(plan: Item) -> LoadResult:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.005)
        with lock:
            now -= 1
        return DONE

    run(make(*map(make_item, "abcdefgh")), apply, threads=2)
    assert most == 2


def test_a_slow_dataset_does_not_hold_up_a_chain_beside_it() -> None:
    end = threading.Event()

    def apply(plan: Item) -> LoadResult:
        if plan.dataset.name == "slow":
            assert end.wait(10)
        elif plan.dataset.name == "c":
            end.set()
        return DONE

    assert run(make(make_item("slow"), *CHAIN.items[:3]), apply, threads=2)[0] == "pass pass pass pass"


def test_work_sees_the_context_of_the_caller() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("seen")
    seen: list[str] = []

    def apply(plan: Item) -> LoadResult:
        seen.append(variable.get())
        return DONE

    run(make(make_item("a"), make_item("b")), apply, threads=2)
    assert seen == ["seen", "seen"]


def test_the_time_of_a_dataset_is_measured() -> None:
    now = [5.0]

    def apply(item: Item) -> LoadResult:
        now[0] += 2.5
        return DONE

    assert Scheduler(apply, clock=lambda: now[0]).execute(make(make_item("a")))[0].seconds == 2.5


def test_a_plan_without_work_settles_without_threads() -> None:
    log = Log()
    refused = make_item("b", action=Action.SKIP, problem=Problem("raw_file", "broken"))
    results = settle(make(make_item("a", action=Action.NONE), refused, make_item("c", action=Action.SKIP)), (log,))
    assert [result.outcome.value for result in results] == ["no-op", "error", "skip"]
    assert log.lines == ["no-op a", "error b", "skip c"]


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_in_any_graph_a_dataset_runs_exactly_when_nothing_above_it_failed(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    reads = [data.draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set() for i in range(count)]
    failing = data.draw(st.sets(st.integers(0, count - 1)))
    plan = make(*(make_item(f"d{i}", " ".join(f"d{r}" for r in sorted(reads[i]))) for i in range(count)))
    outcome, _ = run(plan, fail(*(f"d{i}" for i in failing)), threads=data.draw(st.sampled_from([1, 3])))
    expected: list[str] = []
    for index in range(count):
        blocked = any(expected[read] != "pass" for read in reads[index])
        expected.append("skip" if blocked else "error" if index in failing else "pass")
    assert outcome.split() == expected


def test_an_item_that_waits_for_itself_is_an_error_and_the_others_are_done() -> None:
    results = Scheduler(lambda _: DONE).execute(make(make_item("a", "a"), make_item("x")))
    assert [result.outcome.value for result in results] == ["error", "pass"]
    assert results[0].problem == Problem("internal", "main.a waits for something that never ends")


def test_a_load_that_gives_nothing_back_fails_alone() -> None:
    results = Scheduler(lambda item: DONE if item.dataset.name == "x" else None).execute(  # type: ignore[arg-type,return-value]
        make(make_item("a"), make_item("x"))
    )
    assert [result.outcome.value for result in results] == ["error", "pass"]


def test_a_table_that_is_left_as_it_is_because_of_a_problem_can_still_be_read() -> None:
    kept = make_item("a", action=Action.NONE, problem=Problem("retired_in_use", "it is read"))
    assert run(make(kept, make_item("b", "a")))[0] == "error pass"


def test_items_of_one_table_run_one_after_another_unless_they_may_run_beside_each_other() -> None:
    for is_parallel, most in ((False, 1), (True, 2)):
        both = threading.Barrier(2, timeout=5 if is_parallel else 0.2)
        seen: list[bool] = []

        def apply(item: Item, both: threading.Barrier = both, seen: list[bool] = seen) -> LoadResult:
            if item.id == "main.r":
                return DONE
            try:
                both.wait()
                seen.append(True)
            except threading.BrokenBarrierError:
                both.reset()
            return DONE

        parts = [make_item("t", partition=part, is_parallel=is_parallel) for part in ("p", "q")]
        results = Scheduler(apply, threads=2).execute(make(*parts, make_item("r", "t")))
        assert [result.id for result in results] == ["main.t/p", "main.t/q", "main.r"]
        assert len(seen) >= most - 1
        assert bool(seen) is is_parallel or most == 1


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_an_exit_of_one_dataset_does_not_stop_the_others(error: BaseException) -> None:
    results = Scheduler(fail("a", error=error)).execute(CHAIN)
    assert [result.outcome.value for result in results] == ["error", "skip", "skip", "pass", "pass"]
    assert results[0].problem is not None
    assert type(error).__name__ in results[0].problem.message


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C as Python handles it; a test run in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass
class Session:
    """Work that ends when it is cancelled, or does not."""

    cancelled: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    all_begun: threading.Barrier = field(default_factory=lambda: threading.Barrier(3, timeout=10))
    calls: int = 0

    def apply(self, item: Item) -> LoadResult:
        if item.dataset.name != "done":
            self.all_begun.wait()
        match item.dataset.name:
            case "obeys":
                signal.raise_signal(signal.SIGINT)  # in this thread: it does not wake the main thread up
                assert self.cancelled.wait(10)
                raise RuntimeError("it was cancelled")
            case "ends":
                assert self.cancelled.wait(10)
            case "never":
                self.over.wait(20)
        return DONE

    def cancel(self, _: Item) -> None:
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("the session does not answer")
        self.cancelled.set()


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_cancels_what_is_in_progress_and_starts_nothing_more() -> None:
    session, log, told = Session(), Log(), list[str]()
    old = make_item("old", action=Action.NONE)
    plan = make(old, *map(make_item, ("done", "obeys", "ends", "never")), make_item("later", "obeys"))
    scheduler = Scheduler(
        session.apply,
        (log,),
        threads=4,
        cancel=session.cancel,
        on_stop=lambda stopped: told.append(str(stopped)),
        grace_seconds=1,
    )
    with pytest.raises(StoppedError) as caught:
        scheduler.execute(plan)
    session.over.set()
    items = caught.value.items
    assert items is not None
    assert [item.outcome.value for item in items] == ["no-op", "pass", "cancelled", "pass", "cancelled", "cancelled"]
    assert [item.reasons[0].text for item in items[2:3] + items[4:]] == ["stopped by Ctrl-C"] * 2 + ["not started"]
    assert all(item.problem is None for item in items)
    assert told == ["stopped by Ctrl-C"]
    assert "start later" not in log.lines
    assert sorted(line for line in log.lines if line.startswith("cancelled")) == [
        "cancelled later",
        "cancelled never",
        "cancelled obeys",
    ]


@pytest.mark.usefixtures("interrupts")
def test_what_failed_before_the_interrupt_stays_failed() -> None:
    class Interrupting(Log):
        def ended(self, result: ItemResult) -> None:
            Log.ended(self, result)
            if len(self.lines) == 2:  # a listener is told again what it may have missed
                raise KeyboardInterrupt

    with pytest.raises(StoppedError) as caught:
        Scheduler(fail("a"), (Interrupting(),)).execute(make(make_item("a"), make_item("b")))
    items = caught.value.items
    assert items is not None
    assert [item.outcome.value for item in items] == ["error", "cancelled"]


def test_a_listener_that_fails_stops_the_run_after_what_is_in_progress() -> None:
    ended = threading.Event()

    class Failing(Log):
        def ended(self, result: ItemResult) -> None:
            raise OSError("the log is gone")

    def apply(item: Item) -> LoadResult:
        if item.dataset.name == "slow":
            threading.Event().wait(0.2)
            ended.set()
        return DONE

    with pytest.raises(OSError, match="the log is gone"):
        Scheduler(apply, (Failing(),), threads=2).execute(make(make_item("slow"), make_item("quick")))
    assert ended.is_set()
