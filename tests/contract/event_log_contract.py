"""What every event log must do. A backend's test file subclasses `EventLogContract` and gives the `uri`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from contract.endings_contract import EndingsContract
from contract.events import SECOND, Maker, generated_history
from contract.malformed_events import malformed_events, unusual_events
from penstock.eventlog import projections
from penstock.eventlog.contract import START, EventLog, Filter, MalformedEventError
from penstock.eventlog.opening import open_event_log
from penstock.model.events import (
    BuildRequest,
    Event,
    EventType,
    Job,
    Partition,
    PartitionInvalidation,
)
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

REF = "sales.orders/day=2026-01-01"


def events_of(log: EventLog, **conditions: object) -> list[Event]:
    return [entry.event for entry in log.read(filter=Filter(**conditions), strict=True)]  # type: ignore[arg-type]


class EventLogContract(EndingsContract):
    """The tests; `shared` says that a second log opened on the same URI sees the same events."""

    shared = True

    @pytest.fixture
    def uri(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def other_uri(self, uri: str) -> str:
        """How another machine would open the same log."""
        return uri

    @pytest.fixture
    def log(self, uri: str) -> Iterator[EventLog]:
        with open_event_log(uri) as log:
            yield log

    @pytest.fixture
    def maker(self) -> Maker:
        return Maker()

    def test_a_new_log_is_empty(self, log: EventLog) -> None:
        assert log.read(strict=True) == []
        assert log.head() == START
        assert projections.list_builds(log) == projections.BuildPage((), 0)
        assert projections.build_state(log, "b") is None
        assert projections.partition_state(log, "p") is None
        assert projections.job_state(log, "r") is None
        assert projections.build_that_made(log, "p") is None

    def test_every_type_comes_back_as_it_was(self, log: EventLog, maker: Maker) -> None:
        events = maker.one_of_each()
        assert {event.event_type for event in events} == set(EventType)
        log.append(events)
        assert [entry.event for entry in log.read()] == events

    def test_the_order_is_that_of_append_not_of_time_or_id(self, log: EventLog, maker: Maker) -> None:
        events = maker.one_of_each()
        log.append(events[::-1])
        log.append([maker.event("b2", BuildRequest(BuildStatus.RECEIVED))])
        read = log.read()
        assert [entry.event for entry in read][:-1] == events[::-1]
        positions = [entry.position for entry in read]
        assert positions == sorted(set(positions))
        assert log.head() == positions[-1]

    def test_an_event_appended_twice_counts_once(self, log: EventLog, maker: Maker) -> None:
        first, *rest = maker.one_of_each()
        log.append([first, first])
        log.append([rest[0], first, rest[1], rest[0]])
        head = log.append([first])
        assert [entry.event for entry in log.read()] == [first, rest[0], rest[1]]
        assert head == log.head() == log.read()[-1].position

    def test_append_of_nothing_gives_the_head(self, log: EventLog, maker: Maker) -> None:
        head = log.append(maker.one_of_each())
        assert log.append([]) == head

    def test_reading_goes_on_behind_a_position(self, log: EventLog, maker: Maker) -> None:
        events = maker.one_of_each()
        log.append(events[:5])
        first = log.read(limit=3)
        log.append(events[5:])
        second = log.read(first[-1].position, limit=4)
        third = log.read(second[-1].position)
        assert [entry.event for entry in (*first, *second, *third)] == events
        assert log.read(third[-1].position) == []
        assert log.read(limit=0) == []
        assert [entry.event for entry in log.last(3)] == events[-3:]
        assert log.last(2, Filter(event_types=(EventType.PARTITION,)))[0].event == events[2]
        assert log.last(0) == []

    def test_filters_choose_events(self, log: EventLog, maker: Maker) -> None:
        events = maker.one_of_each()
        other = [
            maker.event("b2", Partition("sales.orders/day=2026-01-02", PartitionStatus.REQUESTED)),
            maker.event("b2", Job("run-2", "sales.refunds", ("sales.refunds/[x]",), JobStatus.SCHEDULED)),
        ]
        log.append([*events, *other])
        assert events_of(log, build_request_ids=("b2",)) == other
        assert events_of(log, build_request_ids=("b1", "b2")) == [*events, *other]
        assert events_of(log, job_labels=("sales.refunds",)) == [other[1]]
        assert events_of(log, job_run_ids=("run-1",)) == [events[3], events[4], events[6]]
        assert events_of(log, event_types=(EventType.JOB, EventType.BUILD_CANCEL)) == [events[3], events[8], other[1]]
        assert events_of(log, partitions=(REF,)) == [events[i] for i in (0, 2, 3, 4, 7)]
        assert events_of(log, partitions=("sales.orders/*",)) == [*(events[i] for i in (0, 2, 3, 4, 7)), other[0]]
        assert events_of(log, partitions=("sales.orders/day=2026-01-0?", "sales.other"), build_request_ids=("b2",)) == [
            other[0]
        ]
        assert events_of(log, partitions=("sales.refunds/[x]",)) == events_of(log, partitions=("*[x]",)) == [other[1]]
        assert events_of(log, partitions=("*%", "sales_other", "SALES.*")) == []
        second, third = events[1].timestamp, events[2].timestamp
        assert events_of(log, since=second, until=third) == [events[1]]
        assert events_of(log, since=second, event_types=(EventType.JOB_GRAPH,)) == [events[1]]

    def test_text_of_any_kind_survives(self, log: EventLog, maker: Maker) -> None:
        message = "tab\t nul\0 line\n \u2028 snowman ☃ \U0001f600 'quote\" \\ %s ? $1"
        event = maker.event("b'1\"?%s", Job("r", "l", ("p/x=é", "p/'"), JobStatus.RUNNING, message, {"m": message}))
        log.append([event])
        assert events_of(log, partitions=("p/'",)) == events_of(log, build_request_ids=("b'1\"?%s",)) == [event]
        broken = maker.event("b", BuildRequest(BuildStatus.FAILED, (), "half \ud800 pair"))
        log.append([broken])
        (read,) = events_of(log, build_request_ids=("b",))
        assert isinstance(read.payload, BuildRequest)
        assert read.payload.message == "half \ufffd\ufffd\ufffd pair"

    def test_a_malformed_event_is_refused_and_harms_nothing(self, log: EventLog, uri: str, maker: Maker) -> None:
        """None where text belongs was committed to a Delta log once, and no one could read that log afterwards."""
        good = maker.event("b", BuildRequest(BuildStatus.RECEIVED))
        log.append([good])
        for number, (event, field) in enumerate(malformed_events(maker)):
            with pytest.raises(MalformedEventError) as caught:
                log.append([maker.event("b", BuildRequest(BuildStatus.PLANNING)), event])
            assert caught.value.field == field, (number, event)
            assert field in str(caught.value)
            assert not caught.value.retryable
        assert [entry.event for entry in log.read(strict=True)] == [good]
        late = maker.event("b", BuildRequest(BuildStatus.PLANNING))
        log.append([late])
        if self.shared:
            with open_event_log(uri) as again:
                assert [entry.event for entry in again.read(strict=True)] == [good, late]

    def test_what_is_no_event_is_refused(self, log: EventLog) -> None:
        for value in (None, "event", {"event_id": "1"}):
            with pytest.raises(MalformedEventError):
                log.append([value])  # type: ignore[list-item]
        assert log.read(strict=True) == []

    def test_unusual_events_come_back_as_they_were(self, log: EventLog, other_uri: str, maker: Maker) -> None:
        events = unusual_events(maker)
        log.append(events)
        assert [entry.event for entry in log.read(strict=True)] == events
        if self.shared:
            with open_event_log(other_uri) as other:
                assert [entry.event for entry in other.read(strict=True)] == events

    def test_an_invalidated_partition_is_not_available_until_made_again(self, log: EventLog, maker: Maker) -> None:
        def append(build: str, payload: Partition | PartitionInvalidation) -> projections.PartitionState:
            log.append([maker.event(build, payload)])
            state = projections.partition_state(log, REF)
            assert state is not None
            assert projections.build_that_made(log, REF) == state.available_build_request_id
            return state

        assert not append("b1", Partition(REF, PartitionStatus.BUILDING)).is_available
        assert append("b1", Partition(REF, PartitionStatus.AVAILABLE)).available_build_request_id == "b1"
        assert append("b2", Partition(REF, PartitionStatus.FAILED, "no")).available_build_request_id == "b1"
        state = append("b3", PartitionInvalidation(REF, "late rows"))
        assert (state.is_available, state.invalidated_reason, state.status.name) == (False, "late rows", "FAILED")
        assert not append("b4", Partition(REF, PartitionStatus.BUILDING)).is_available
        state = append("b4", Partition(REF, PartitionStatus.AVAILABLE))
        assert (state.available_build_request_id, state.invalidated_reason) == ("b4", None)

    def test_the_first_claim_comes_first(self, log: EventLog, maker: Maker) -> None:
        for build in ("b1", "b2", "b3"):
            log.append([maker.event(build, BuildRequest(BuildStatus.RECEIVED, (REF,)))])
            log.append([maker.event(build, Partition(REF, PartitionStatus.REQUESTED))])
        log.append([maker.event("b3", Partition(REF, PartitionStatus.SCHEDULED, "", "r3"))])
        log.append([maker.event("b2", Partition(REF, PartitionStatus.SCHEDULED, "", "r2"))])
        active = projections.active_builds(log, REF, strict=True)
        assert [(build.build_request_id, build.claimed) for build in active] == [
            ("b3", True),
            ("b2", True),
            ("b1", False),
        ]
        log.append([maker.event("b2", Partition(REF, PartitionStatus.DELEGATED))])
        log.append([maker.event("b3", BuildRequest(BuildStatus.CANCELLED))])
        assert [build.build_request_id for build in projections.active_builds(log, REF)] == ["b1"]

    def test_lists_page_and_count(self, log: EventLog, maker: Maker) -> None:
        for number in range(7):
            status = BuildStatus.FAILED if number % 3 == 0 else BuildStatus.COMPLETED
            log.append([maker.event(f"b{number}", BuildRequest(BuildStatus.RECEIVED, (REF,), "hello"))])
            log.append([maker.event(f"b{number}", BuildRequest(status, (), "bye"))])
        page = projections.list_builds(log, limit=2, offset=1)
        assert ([build.build_request_id for build in page.builds], page.total) == (["b5", "b4"], 7)
        failed = projections.list_builds(log, statuses=(BuildStatus.FAILED,), limit=2)
        assert ([build.build_request_id for build in failed.builds], failed.total) == (["b6", "b3"], 3)
        assert (failed.builds[0].message, failed.builds[0].requested_partitions) == ("bye", (REF,))

    def test_activity_counts_everything(self, log: EventLog, maker: Maker) -> None:
        log.append(maker.one_of_each())
        summary = projections.activity(log, strict=True)
        assert (summary.events, summary.builds, summary.active_builds) == (9, {"RECEIVED": 1}, 1)
        assert (summary.partitions, summary.invalidated_partitions) == ({"SCHEDULED": 1}, 1)
        assert summary.jobs == {"SCHEDULED": 1}
        assert summary.recent_builds[0].cancel_reason == "not needed"
        (job,) = projections.list_jobs(log, build_request_id="b1", statuses=(JobStatus.SCHEDULED,))
        assert (job.cancel_reason, job.job_label, job.target_partitions) == ("too slow", "sales.orders", (REF,))
        assert projections.job_state(log, "run-1") == job
        assert projections.list_partitions(log, statuses=(PartitionStatus.SCHEDULED,)) == list(
            summary.recent_partitions
        )

    def test_events_by_subject(self, log: EventLog, maker: Maker) -> None:
        events = maker.one_of_each()
        log.append(events)
        assert [entry.event for entry in projections.events_of_build(log, "b1")] == events
        assert len(projections.events_of_partition(log, REF)) == 5
        assert len(projections.events_of_job_run(log, "run-1")) == 3
        assert len(projections.events_between(log, events[0].timestamp, events[0].timestamp + 3 * SECOND, 2)) == 2

    def test_bulk_append_keeps_order(self, log: EventLog) -> None:
        events = generated_history(2500)
        log.append(events)
        assert [entry.event for entry in log.read(strict=True)] == events
        assert projections.activity(log).events == 2500

    def test_threads_lose_nothing_and_keep_their_order(self, log: EventLog) -> None:
        def write(worker: int) -> None:
            maker = Maker(worker)
            for number in range(10):
                log.append([maker.event(f"w{worker}", BuildRequest(BuildStatus.RECEIVED, (), str(number)))])

        _run_threads([lambda worker=worker: write(worker) for worker in range(6)])  # type: ignore[misc]
        for worker in range(6):
            own = events_of(log, build_request_ids=(f"w{worker}",))
            assert [event.payload.message for event in own] == [str(n) for n in range(10)]  # type: ignore[union-attr]

    def test_tail_follows_and_stops(self, log: EventLog, maker: Maker) -> None:
        events = maker.one_of_each()
        log.append(events[:2])
        seen: list[Event] = []
        chosen = Filter(build_request_ids=("b1",))

        def follow() -> None:
            for entry in log.tail(START, chosen, poll_seconds=0.02, stop=lambda: len(seen) >= len(events)):
                seen.append(entry.event)  # noqa: PERF401

        thread = threading.Thread(target=follow)
        thread.start()
        for event in events[2:]:
            log.append([maker.event("b9", BuildRequest(BuildStatus.RECEIVED)), event])
        thread.join(30)
        assert seen == events

    def test_tail_from_now_leaves_the_past_out(self, log: EventLog, maker: Maker) -> None:
        log.append(maker.one_of_each("old"))
        tail = log.tail(poll_seconds=0.02, stop=lambda: bool(done))
        done: list[int] = []
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.extend(entry.event.build_request_id for entry in tail))
        thread.start()
        time.sleep(0.3)
        log.append([maker.event("new", BuildRequest(BuildStatus.RECEIVED))])
        time.sleep(0.5)
        done.append(1)
        thread.join(30)
        assert found == ["new"]

    def test_another_machine_s_view(self, log: EventLog, uri: str, other_uri: str, maker: Maker) -> None:
        if not self.shared:
            return
        events = maker.one_of_each()
        with open_event_log(other_uri) as other:
            log.append(events[:4])
            assert [entry.event for entry in other.read(strict=True)] == events[:4]
            other.append(events[3:])
            assert [entry.event for entry in other.read()] == events
            assert [entry.event for entry in log.read(strict=True)] == events
            log_positions = [entry.position for entry in log.read()]
            assert [entry.position for entry in other.read()] == log_positions
        with open_event_log(uri) as again:
            assert [(e.position, e.event) for e in again.read()] == list(zip(log_positions, events, strict=True))

    def test_a_reader_is_at_most_a_second_behind(self, log: EventLog, other_uri: str, maker: Maker) -> None:
        if not self.shared:
            return
        with open_event_log(other_uri) as other:
            assert other.read() == []
            log.append(maker.one_of_each())
            deadline = time.monotonic() + 1.5
            while len(other.read()) < 9:
                assert time.monotonic() < deadline
                time.sleep(0.02)


def _run_threads(targets: list[Callable[[], None]]) -> None:
    errors: list[BaseException] = []

    def guarded(target: Callable[[], None]) -> None:
        try:
            target()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
