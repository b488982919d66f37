"""What claims must do on every log. A backend's test class gives the `uri`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog, Position
from penstock.eventlog.opening import open_event_log
from penstock.model.build_history import replay
from penstock.model.clock import ManualClock, SystemClock
from penstock.model.events import BuildCancel, Delegation, Event
from penstock.model.recording import BuildRecorder, standalone_event
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus
from penstock.run.claims.asking import Answer, Claims, LostClaimError, Next, Standing, State, Won, decide_next
from penstock.run.claims.heartbeats import Heartbeats

LAPSE = 90.0
A, B, C = (f"main.t/date=2024-01-0{day}" for day in (1, 2, 3))
TABLE = "main.t"
OTHER = "main.other"


@dataclass
class Watch:
    """A monotonic clock that a test moves."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Build:
    """A build in a process of its own, as far as the log can tell."""

    name: str
    log: EventLog
    watch: Watch = field(default_factory=Watch)

    def __post_init__(self) -> None:
        self.recorder = BuildRecorder(SystemClock(), self.name)
        steps = (BuildStatus.RECEIVED, BuildStatus.PLANNING, BuildStatus.ANALYSIS_COMPLETED, BuildStatus.EXECUTING)
        self.log.append([self.recorder.build(step) for step in steps])
        self.claims = Claims(self.log, self.recorder, lapse_seconds=LAPSE, monotonic=self.watch)

    def ask(self, *refs: str) -> Answer:
        new = [ref for ref in refs if ref not in self.recorder.history.partitions]
        self.log.append([self.recorder.partition(ref, PartitionStatus.REQUESTED) for ref in new])
        return self.claims.ask(refs, "main.t")

    def win(self, *refs: str) -> Won:
        won = self.ask(*refs).won
        assert won is not None
        return won

    def end(self, won: Won, status: JobStatus, message: str = "", *, retryable: bool = False) -> None:
        config = {"retryable": True} if retryable else None
        result = PartitionStatus.AVAILABLE if status is JobStatus.COMPLETED else PartitionStatus.FAILED
        recorder = self.recorder
        self.log.append(
            [
                recorder.job(won.job_run_id, JobStatus.RUNNING),
                *(recorder.partition(ref, PartitionStatus.BUILDING, job_run_id=won.job_run_id) for ref in won.refs),
                recorder.job(won.job_run_id, status, message=message, config=config),
                *(recorder.partition(ref, result, job_run_id=won.job_run_id, message=message) for ref in won.refs),
            ]
        )

    def beat(self) -> None:
        Heartbeats(self.log, [self.recorder]).beat()

    def waits_long(self) -> None:
        """Much time passes for this observer, which looks at the log at both ends."""
        self.claims.standing(A)
        self.watch.now += LAPSE + 1


@dataclass
class Racing:
    """A log on which others come before and after the next append."""

    log: EventLog
    before: Callable[[], None]
    after: Callable[[], None]

    def append(self, events: Sequence[Event]) -> Position:
        before, after = self.before, self.after
        self.before = self.after = lambda: None
        before()
        position = self.log.append(events)
        after()
        return position

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


Start = Callable[[str], Build]


class ClaimsContract:
    """The tests; `shared` says that a second log opened on the same URI sees the same events."""

    shared = True

    @pytest.fixture
    def uri(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def start(self, uri: str) -> Iterator[Start]:
        """Starts a build with a log of its own, as another process would have it."""
        logs: list[EventLog] = []

        def begin(name: str) -> Build:
            if not logs or self.shared:
                logs.append(open_event_log(uri))
            return Build(name, logs[-1])

        yield begin
        for log in logs:
            log.close()

    def test_the_first_claim_builds_and_the_others_delegate(self, start: Start) -> None:
        first, second = start("b1"), start("b2")
        won = first.win(A, B)
        assert won.refs == (A, B)
        assert won.fences == ()
        answer = second.ask(B, C)
        assert answer.won is not None
        assert answer.won.refs == (C,)
        assert {ref: claim.build_request_id for ref, claim in answer.held.items()} == {B: "b1"}
        assert answer.won.number > won.number
        assert second.claims.standing(B) == Standing(State.HELD, "b1")
        assert second.recorder.history.partitions[B] is PartitionStatus.DELEGATED
        assert second.recorder.history.delegated_to == {B: "b1"}
        payloads = [e.event.payload for e in projections.events_of_build(second.log, "b2", strict=True)]
        assert Delegation(B, "b1") in payloads
        assert second.ask(B).won is None
        assert payloads.count(Delegation(B, "b1")) == 1
        first.end(won, JobStatus.COMPLETED)
        assert second.claims.standing(B) == Standing(State.BUILT, "b1")
        assert start("b3").claims.standing(C) == Standing(State.HELD, "b2")

    def test_a_claim_on_a_table_conflicts_with_every_partition(self, start: Start) -> None:
        first, second = start("b1"), start("b2")
        whole = first.win(TABLE)
        assert second.ask(A).held[A].ref == TABLE
        assert second.win(OTHER).refs == (OTHER,)
        first.end(whole, JobStatus.COMPLETED)
        part = second.win(A)
        assert first.recorder.build_request_id == "b1"
        third = start("b3")
        assert third.ask(TABLE).held[TABLE].ref == A
        assert third.win(B).refs == (B,)
        second.end(part, JobStatus.COMPLETED)
        assert third.claims.standing(A) == Standing(State.BUILT, "b2")

    @pytest.mark.parametrize("ref", [A, TABLE])
    def test_a_claim_that_came_second_is_delegated_though_the_first_has_ended_by_then(
        self, start: Start, ref: str
    ) -> None:
        first, second = start("b1"), start("b2")
        claims: list[Won] = []
        race = Racing(
            second.log, lambda: claims.append(first.win(ref)), lambda: first.end(claims[0], JobStatus.COMPLETED)
        )
        second.log.append([second.recorder.partition(A, PartitionStatus.REQUESTED)])
        second.claims._log = race  # type: ignore[assignment]
        answer = second.claims.ask([A], "main.t")
        assert answer.won is None
        assert answer.held[A].build_request_id == "b1"
        assert second.recorder.history.partitions[A] is PartitionStatus.DELEGATED
        assert second.claims.standing(ref) == Standing(State.BUILT, "b1")
        assert second.ask(A).won is not None, "it may ask again, for example after an invalidation"

    def test_a_build_that_is_taken_over_while_it_asks_is_told(self, start: Start) -> None:
        slow, waiter = start("b1"), start("b2")
        slow.win(A)
        waiter.ask(A)
        waiter.waits_long()
        slow.log.append([slow.recorder.partition(B, PartitionStatus.REQUESTED)])
        waiter.waits_long()
        slow.claims._log = Racing(slow.log, lambda: waiter.win(A) and None, lambda: None)  # type: ignore[assignment]
        with pytest.raises(LostClaimError, match="was ended by another one"):
            slow.claims.ask([B], "main.t")

    def test_a_failure_says_whether_a_waiter_may_try_itself(self, start: Start) -> None:
        first, second = start("b1"), start("b2")
        fatal, flaky = first.win(A), first.win(B)
        assert second.ask(A, B).won is None
        first.end(fatal, JobStatus.FAILED, "bad data")
        first.end(flaky, JobStatus.FAILED, "no connection", retryable=True)
        assert second.claims.standing(A) == Standing(State.FAILED, "b1", "bad data")
        assert second.claims.standing(B) == Standing(State.FAILED, "b1", "no connection", is_retryable=True)
        assert decide_next(second.claims.standing(A), has_asked_again=False) is Next.FAIL
        assert decide_next(second.claims.standing(B), has_asked_again=False) is Next.ASK
        assert decide_next(second.claims.standing(B), has_asked_again=True) is Next.FAIL
        won = second.win(B)
        assert won.fences == ()
        assert second.recorder.history.partitions[B] is PartitionStatus.SCHEDULED

    def test_a_build_that_ends_gives_everything_back(self, start: Start) -> None:
        first, second = start("b1"), start("b2")
        first.win(A, B)
        first.log.append(first.recorder.end(BuildStatus.CANCELLED, message="", reason="Ctrl-C"))
        assert second.claims.standing(A) == Standing(State.FREE), "whoever waits for it has not been cancelled"
        assert second.win(A, B).fences == ()

    def test_a_dead_builder_is_taken_over_and_its_late_commit_is_fenced(self, start: Start) -> None:
        dead, waiter, late = start("b1"), start("b2"), start("b3")
        zombie = dead.win(A, B)
        assert waiter.ask(A).won is None
        waiter.watch.now += LAPSE
        assert waiter.claims.standing(A).state is State.HELD
        waiter.watch.now += 1
        assert waiter.claims.standing(A) == Standing(State.LAPSED, "b1")
        won = waiter.win(A)
        assert won.fences == (zombie.number,)
        with pytest.raises(LostClaimError, match="another build has taken over"):
            dead.claims.check(zombie)
        with pytest.raises(LostClaimError, match="was ended by another one"):
            dead.claims.ask([C], "main.t")
        waiter.claims.check(won)
        build = projections.build_state(late.log, "b1", strict=True)
        assert build is not None
        assert build.status is BuildStatus.FAILED
        assert late.win(B).fences == (zombie.number,), "its batch is fenced for whoever builds the rest"
        waiter.end(won, JobStatus.COMPLETED)
        assert start("b4").win(A).fences == ()
        entries = late.log.read(strict=True)
        history = replay(entry.event for entry in entries)["b1"]
        assert all(status.is_final for status in history.partitions.values())
        assert all(job.status.is_final for job in history.jobs.values())

    def test_only_the_first_takeover_counts(self, start: Start) -> None:
        dead, one, two = start("b1"), start("b2"), start("b3")
        dead.win(A)
        for waiter in (one, two):
            assert waiter.ask(A).won is None
            waiter.waits_long()
        assert one.win(A).refs == (A,)
        answer = two.ask(A)
        assert answer.won is None
        assert answer.held[A].build_request_id == "b2"
        assert two.claims.standing(A) == Standing(State.HELD, "b2")

    def test_a_heartbeat_is_seen_and_one_on_its_way_defeats_a_takeover(self, start: Start) -> None:
        slow, waiter = start("b1"), start("b2")
        won = slow.win(A)
        assert waiter.ask(A).won is None
        waiter.waits_long()
        slow.beat()
        assert waiter.claims.standing(A).state is State.HELD
        waiter.waits_long()
        seen = waiter.claims._book.signs["b1"]
        slow.beat()  # after the observer has looked, before its takeover is written
        reason = f"no sign of life since position {seen}: taken over by build b2"
        waiter.log.append([standalone_event(SystemClock(), "b1", BuildCancel(reason))])
        slow.claims.check(won)
        assert waiter.claims.standing(A) == Standing(State.HELD, "b1")
        assert start("b3").claims.standing(A) == Standing(State.HELD, "b1")

    def test_cancels_and_invalidations_by_others_are_no_signs_of_life(self, start: Start) -> None:
        dead, waiter = start("b1"), start("b2")
        dead.win(A)
        waiter.ask(A)
        waiter.waits_long()
        waiter.log.append([standalone_event(SystemClock(), "b1", BuildCancel("a person is tired of it"))])
        assert waiter.claims.standing(A).state is State.LAPSED

    def test_a_smaller_batch_of_the_same_build_replaces_its_claim(self, start: Start) -> None:
        first, second = start("b1"), start("b2")
        batch = first.win(A, B)
        first.log.append(
            [
                first.recorder.job(batch.job_run_id, JobStatus.RUNNING),
                *(first.recorder.partition(r, PartitionStatus.BUILDING, job_run_id=batch.job_run_id) for r in (A, B)),
                first.recorder.job(batch.job_run_id, JobStatus.FAILED, message="one of them"),
            ]
        )
        half = first.win(A)
        assert half.fences == ()
        assert second.ask(A).won is None
        assert second.win(B).refs == (B,)

    def test_a_reader_that_comes_late_agrees_with_one_that_saw_everything(self, start: Start) -> None:
        """A claim that lost against a build which has ended since must not look valid."""
        first, loser = start("b1"), start("b2")
        won = first.win(A)
        run = loser.recorder.new_job_run()
        loser.log.append(
            [
                loser.recorder.partition(A, PartitionStatus.REQUESTED),
                loser.recorder.job(run, JobStatus.SCHEDULED, job_label="main.t", target_partitions=[A]),
                loser.recorder.partition(A, PartitionStatus.SCHEDULED, job_run_id=run),
            ]
        )
        first.end(won, JobStatus.COMPLETED)
        first.log.append(first.recorder.end(BuildStatus.COMPLETED, message="", reason=""))
        late = start("b3")
        assert late.claims.standing(A) == loser.claims.standing(A) == Standing(State.BUILT, "b1")

    def test_a_job_run_that_lost_a_claim_is_not_fenced_for_it(self, start: Start) -> None:
        """It builds its other partitions under the same number."""
        first, loser, third = start("b1"), start("b2"), start("b3")
        won = first.win(A)
        run = loser.recorder.new_job_run()  # it had not seen the first claim when it wrote its own
        loser.log.append(
            [
                *(loser.recorder.partition(ref, PartitionStatus.REQUESTED) for ref in (A, B)),
                loser.recorder.job(run, JobStatus.SCHEDULED, job_label="main.t", target_partitions=[A, B]),
                *(loser.recorder.partition(ref, PartitionStatus.SCHEDULED, job_run_id=run) for ref in (A, B)),
            ]
        )
        first.end(won, JobStatus.FAILED)
        assert third.win(A).fences == ()

    def test_a_build_that_was_ended_cannot_claim_again(self, start: Start) -> None:
        dead, waiter = start("b1"), start("b2")
        dead.win(A)
        waiter.ask(A)
        waiter.waits_long()
        won = waiter.win(A)
        waiter.end(won, JobStatus.COMPLETED)
        run = dead.recorder.new_job_run()  # between its look at the log and its append, the takeover was written
        dead.log.append(
            [
                dead.recorder.partition(C, PartitionStatus.REQUESTED),
                dead.recorder.job(run, JobStatus.SCHEDULED, job_label="main.t", target_partitions=[C]),
                dead.recorder.partition(C, PartitionStatus.SCHEDULED, job_run_id=run),
            ]
        )
        waiter.log.append(waiter.recorder.end(BuildStatus.COMPLETED, message="", reason=""))
        for observer in (waiter, start("b3"), start("b4")):
            assert observer.claims.standing(C) == Standing(State.FREE)

    def test_the_log_is_read_from_the_last_quiet_moment(self, start: Start) -> None:
        first = start("b1")
        before = projections.quiet_position(first.log, strict=True)
        assert len(first.log.read(after=before, strict=True)) == 4
        first.log.append(first.recorder.end(BuildStatus.COMPLETED, message="", reason=""))
        quiet = projections.quiet_position(first.log, strict=True)
        assert quiet == first.log.head(strict=True)
        one = start("b2")
        two = start("b3")
        one.log.append(one.recorder.end(BuildStatus.COMPLETED, message="", reason=""))
        since = two.log.read(after=projections.quiet_position(two.log, strict=True), strict=True)
        assert (since[0].event.build_request_id, len(since)) == ("b2", 9)

    def test_a_build_that_was_abandoned_long_ago_does_not_make_every_reader_read_everything(self, start: Start) -> None:
        first = start("b1")
        week_ago = ManualClock(time.time_ns() - 8 * 24 * 3600 * 10**9)
        first.log.append([BuildRecorder(week_ago, "abandoned").build(BuildStatus.RECEIVED)])
        first.log.append(first.recorder.end(BuildStatus.COMPLETED, message="", reason=""))
        head = first.log.head(strict=True)
        assert projections.quiet_position(first.log, strict=True) < head
        alive_since = time.time_ns() - 7 * 24 * 3600 * 10**9
        assert projections.quiet_position(first.log, alive_since=alive_since, strict=True) == head
        assert start("b2").claims._book.position > head
