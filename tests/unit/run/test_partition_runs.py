"""Batches of partitions that fail: what is run, what is built, and what the event log says of each partition."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from builders import make_item
from penstock.errors import CancelledError, ConcurrentRunError, PenstockError, UserCodeError
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.lake.partition_tables import FencedError
from penstock.model.build_history import find_illegal_moves, replay
from penstock.model.clock import ManualClock
from penstock.model.plan import Action, Item, Plan, Problem
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, LoadResult, Outcome, RunResult
from penstock.model.status import JobStatus, PartitionStatus
from penstock.run.claims.asking import LostClaimError
from penstock.run.dispatch import Limits, RetryRule
from penstock.run.failures import FailureLimit
from penstock.run.partition_runs import add_up, load_item
from penstock.run.recording import RunRecorder
from penstock.run.scheduler import Scheduler

PARTS = tuple(f"day={number:02}" for number in range(90))


@dataclass
class Table:
    """A table of partitions in memory: some of them cannot be computed."""

    bad: dict[str, PenstockError] = field(default_factory=dict)
    runs: list[tuple[str, ...]] = field(default_factory=list)
    built: list[str] = field(default_factory=list)
    late: tuple[tuple[str, ...], ...] = ()

    def expand(self, item: Item) -> Sequence[Item]:
        return (item,) if item.parts else [item.narrowed(parts) for parts in self.late]

    def load(self, item: Item) -> LoadResult:
        self.runs.append(item.parts)
        for part in item.parts:
            if part in self.bad:
                raise self.bad[part]
        self.built.extend(item.parts)
        return LoadResult(len(self.runs), 10 * len(item.parts))

    def close(self) -> None:
        return None


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    opened = open_event_log(f"sqlite:///{tmp_path}/events.db")
    yield opened
    opened.close()


def broken(text: str = "it broke") -> UserCodeError:
    return UserCodeError(text, hint="repair it")


def batch(parts: Sequence[str] = PARTS) -> Item:
    return make_item("daily", action=Action.RECOMPUTE).narrowed(tuple(parts))


def run(log: EventLog, table: Table, *items: Item, max_failures: int | None = None) -> tuple[ItemResult, ...]:
    recorder = RunRecorder(log, BuildRecorder(ManualClock(), "build-1"))
    plan = Plan("shop", None, items)
    failures = FailureLimit(max_failures)

    def apply(item: Item) -> LoadResult:
        return load_item(table, table.load, item, (recorder,), failures)

    recorder.received("penstock build")
    recorder.planned(plan)
    results = Scheduler(apply, (recorder,), 2, failures=failures).execute(plan)
    recorder.finished(RunResult("build-1", results, 1.0))
    return results


def statuses(log: EventLog) -> dict[str, PartitionStatus]:
    entries = [entry.event for entry in projections.events_of_build(log, "build-1")]
    assert find_illegal_moves(entries) == []
    history = replay(entries)["build-1"]
    assert all(status.is_final for status in history.partitions.values())
    assert all(job.status.is_final for job in history.jobs.values())
    return history.partitions


@pytest.mark.parametrize("bad", [0, 1, 44, 45, 88, 89])
def test_one_bad_date_of_90_costs_at_most_8_more_job_runs(log: EventLog, bad: int) -> None:
    table = Table({PARTS[bad]: broken()})
    (result,) = run(log, table, batch())
    assert (result.outcome, sorted(table.built)) == (Outcome.ERROR, sorted(set(PARTS) - {PARTS[bad]}))
    assert len(table.runs) <= 9
    assert result.problem is not None
    assert result.problem.message == f"main.daily: 1 of 90 partitions failed: {PARTS[bad]}; it broke"
    assert (result.problem.code, result.problem.hint) == ("partitions_failed", "repair it")
    found = statuses(log)
    assert [ref for ref, status in found.items() if status is PartitionStatus.FAILED] == [f"main.daily/{PARTS[bad]}"]
    jobs = projections.list_jobs(log, limit=100)
    assert len(jobs) == len(table.runs)
    assert {job.status for job in jobs} <= {JobStatus.COMPLETED, JobStatus.FAILED}


def test_several_bad_dates_are_found_and_named(log: EventLog) -> None:
    table = Table({PARTS[3]: broken("three"), PARTS[70]: broken("seventy")})
    (result,) = run(log, table, batch())
    assert sorted(table.built) == sorted(set(PARTS) - {PARTS[3], PARTS[70]})
    assert result.problem is not None
    assert "2 of 90 partitions failed: day=03, day=70" in result.problem.message
    messages = {p.partition_ref: p.message for p in projections.list_partitions(log, statuses=[PartitionStatus.FAILED])}
    assert messages["main.daily/day=70"] in {"seventy", result.problem.message}


def test_a_definition_that_is_broken_is_not_run_for_every_date(log: EventLog) -> None:
    table = Table(dict.fromkeys(PARTS, broken()))
    (result,) = run(log, table, batch())
    assert (len(table.runs) <= 10, table.built, result.outcome) == (True, [], Outcome.ERROR)
    assert set(statuses(log).values()) == {PartitionStatus.FAILED}


def test_a_batch_without_errors_is_one_job_run(log: EventLog) -> None:
    table = Table()
    (result,) = run(log, table, batch())
    assert (len(table.runs), result.outcome, result.load) == (1, Outcome.PASS, LoadResult(1, 900))
    assert set(statuses(log).values()) == {PartitionStatus.AVAILABLE}


@pytest.mark.parametrize(
    "error", [ConcurrentRunError("overtaken"), LostClaimError("taken over"), FencedError("taken over")]
)
def test_errors_that_concern_all_partitions_are_not_searched(log: EventLog, error: PenstockError) -> None:
    table = Table({PARTS[5]: error})
    (result,) = run(log, table, batch())
    assert (len(table.runs), result.problem and result.problem.code) == (1, error.code)


def test_a_batch_that_is_tried_again_leaves_what_was_built(log: EventLog) -> None:
    """The first search is broken off by a transient error, after some partitions were built."""
    table = Table({PARTS[1]: broken(), PARTS[60]: ConcurrentRunError("overtaken")})
    first = table.load

    def load(item: Item) -> LoadResult:
        if len(table.runs) > 8:
            table.bad.pop(PARTS[60], None)
        return first(item)

    recorder = RunRecorder(log, BuildRecorder(ManualClock(), "build-1"))
    plan = Plan("shop", None, (batch(),))
    apply: Callable[[Item], LoadResult] = lambda item: load_item(table, load, item, (recorder,), FailureLimit())  # noqa: E731
    recorder.received("penstock build")
    recorder.planned(plan)
    limits = Limits(RetryRule(5, 0.01))
    results = Scheduler(apply, (recorder,), 1, limits=lambda _: limits).execute(plan)
    recorder.finished(RunResult("build-1", results, 1.0))
    failed = [ref for ref, status in statuses(log).items() if status is PartitionStatus.FAILED]
    assert (failed, set(table.built)) == ([f"main.daily/{PARTS[1]}"], set(PARTS) - {PARTS[1]})


def test_a_single_partition_has_its_own_error(log: EventLog) -> None:
    (result,) = run(log, Table({PARTS[5]: broken()}), batch(PARTS[5:6]))
    assert result.problem is not None
    assert (result.problem.code, result.problem.message) == ("user_code", "it broke")


def test_what_only_the_inputs_show_is_run_in_batches_of_its_own(log: EventLog) -> None:
    late = make_item("daily", action=Action.RECOMPUTE)
    table = Table({PARTS[1]: broken()}, late=((PARTS[0], PARTS[1]), (PARTS[2],)))
    (result,) = run(log, table, late)
    assert (sorted(table.built), result.outcome) == ([PARTS[0], PARTS[2]], Outcome.ERROR)
    found = statuses(log)
    assert found[f"main.daily/{PARTS[1]}"] is PartitionStatus.FAILED
    assert found[f"main.daily/{PARTS[2]}"] is PartitionStatus.AVAILABLE
    assert found["main.daily"] is PartitionStatus.FAILED


def test_nothing_to_expand_is_success(log: EventLog) -> None:
    (result,) = run(log, Table(), make_item("daily", action=Action.RECOMPUTE))
    assert (result.outcome, statuses(log)) == (Outcome.PASS, {"main.daily": PartitionStatus.AVAILABLE})


def test_after_too_many_failures_nothing_new_begins(log: EventLog) -> None:
    items = [replace(batch((part,)), is_parallel=False) for part in PARTS[:10]]
    table = Table(dict.fromkeys(PARTS, broken()))
    results = run(log, table, *items, max_failures=2)
    assert len(table.runs) == 3
    assert [result.outcome for result in results[3:]] == [Outcome.SKIP] * 7
    assert results[9].reasons[0].code == "too_many_failures"
    assert set(statuses(log).values()) == {PartitionStatus.FAILED}


def test_failed_dates_of_a_batch_are_counted_one_by_one(log: EventLog) -> None:
    """`--max-failures` is about dates: two bad ones in one batch are two failures, and the search ends there."""
    table = Table({PARTS[number]: broken(f"bad {number}") for number in (3, 40, 70, 80)})
    first, later = batch(), replace(batch(("day=90",)), is_parallel=False)
    results = run(log, table, first, later, max_failures=1)
    problem = results[0].problem
    assert problem is not None
    assert problem.failed == (PARTS[3], PARTS[40])
    assert problem.message.startswith("main.daily: 2 of 90 partitions failed: day=03, day=40; ")
    assert "were not tried alone: 2 partitions failed, more than --max-failures 1; bad 3" in problem.message
    assert (results[1].outcome, results[1].reasons[0].code) == (Outcome.SKIP, "too_many_failures")
    assert set(table.built) | set(problem.failed) < set(PARTS)
    found = statuses(log)
    assert {found[f"main.daily/{part}"] for part in table.built} == {PartitionStatus.AVAILABLE}
    assert found[f"main.daily/{PARTS[80]}"] is PartitionStatus.FAILED


def test_a_batch_may_have_as_many_failed_dates_as_are_allowed(log: EventLog) -> None:
    table = Table({PARTS[number]: broken(f"bad {number}") for number in (3, 70)})
    results = run(log, table, batch(), batch(("day=90",)), max_failures=2)
    assert [result.outcome for result in results] == [Outcome.ERROR, Outcome.PASS]
    assert set(table.built) == {*PARTS, "day=90"} - {PARTS[3], PARTS[70]}


def test_of_what_only_the_inputs_show_nothing_more_begins_either(log: EventLog) -> None:
    table = Table(dict.fromkeys(PARTS, broken()), late=tuple((part,) for part in PARTS[:10]))
    (result,) = run(log, table, make_item("daily", action=Action.RECOMPUTE), max_failures=2)
    assert len(table.runs) == 3
    assert result.problem is not None
    assert "3 of 10 partitions failed: day=00, day=01, day=02; 7 of 10 were not tried" in result.problem.message


def test_a_search_ends_with_a_cancel(log: EventLog) -> None:
    """Nothing begins after it, and what it interrupted has not failed."""
    table, stopped, ended = Table(bad={"day=03": broken()}), threading.Event(), list[ItemResult]()

    def load(item: Item) -> LoadResult:
        if len(table.runs) == 2:
            stopped.set()
        return table.load(item)

    class Listener(RunRecorder):
        def ended(self, result: ItemResult) -> None:
            ended.append(result)

    listener = Listener(log, BuildRecorder(ManualClock(), "build-1"))
    with pytest.raises(CancelledError):
        load_item(table, load, batch(), (listener,), FailureLimit(None), stopped.is_set)
    assert len(table.runs) == 3
    assert [result.outcome for result in ended] == [Outcome.ERROR, Outcome.CANCELLED]
    with pytest.raises(CancelledError):
        load_item(replace(table, late=(("day=04",),)), load, make_item("daily"), (), FailureLimit(None), stopped.is_set)
    assert len(table.runs) == 3


def test_what_cannot_be_built_stops_no_other_partition(log: EventLog) -> None:
    """The dataset fails as a whole, so that a retry builds it; the good partitions are there."""

    class WithRefused(Table):
        def expand(self, item: Item) -> Sequence[Item]:
            return (*super().expand(item), item.refused(Problem("partition_values", "an empty text")))

    table = WithRefused(late=(("day=01",), ("day=02",)))
    (result,) = run(log, table, make_item("daily", action=Action.RECOMPUTE))
    assert (result.outcome, result.problem and result.problem.message) == (Outcome.ERROR, "an empty text")
    assert table.built == ["day=01", "day=02"]
    nothing = WithRefused()
    with pytest.raises(PenstockError, match="an empty text"):
        load_item(nothing, nothing.load, make_item("daily"), (), FailureLimit(None))


def test_what_others_did_all_of_is_theirs_even_if_it_is_not_known_whose() -> None:
    """A build that committed and was cancelled is nobody's maker: the item was still not built here."""
    assert add_up([LoadResult(None, 0, delegated_to=""), LoadResult(None, 0, delegated_to="")]).delegated_to == ""
    assert add_up([LoadResult(None, 0, delegated_to=""), LoadResult(None, 0, delegated_to="b")]).delegated_to == "b"
    assert add_up([LoadResult(None, 0, delegated_to="b"), LoadResult(3, 1)]).delegated_to is None
