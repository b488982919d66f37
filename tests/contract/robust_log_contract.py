"""What every event log survives: events that cannot be read, migrations under open handles, wrong states, redaction."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from contract.damage import DAMAGES, plant, plant_body, run, set_version
from contract.events import SECOND, Maker, generated_history
from penstock.errors import EventLogError
from penstock.eventlog import projections
from penstock.eventlog.answers import entry_json
from penstock.eventlog.contract import EventLog, MalformedEventError, NewerLogError
from penstock.eventlog.delta import DeltaEventLog
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.maintenance import repair, verify
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.prune import prune
from penstock.eventlog.redaction import REDACTED, redact_events, redact_texts
from penstock.eventlog.sql import SqlEventLog
from penstock.model.events import BuildRequest, Job, JobGraph, Partition, PartitionInvalidation, Unreadable
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

SECRET = "ann.secret@example.org"


class RobustLogContract:
    """The tests; a class that inherits gives the fixtures of `EventLogContract`."""

    shared = True

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_an_event_that_cannot_be_read_is_named_and_stepped_over(
        self, log: EventLog, uri: str, maker: Maker, damage: str
    ) -> None:
        first, last = maker.one_of_each(), maker.one_of_each("b2")
        log.append(first)
        planted = plant(log, damage)
        log.append(last)
        for reader in _and_another(self, log, uri):
            found = [entry.event for entry in reader.read(strict=True)]
            assert [event.event_id for event in found] == [e.event_id for e in (*first, found[9], *last)]
            assert isinstance(found[9].payload, Unreadable)
            assert "unreadable" in str(entry_json(reader.read()[9]))
            assert projections.activity(reader).events == 19
            assert [entry.event.event_id for entry in projections.events_of_build(reader, "planted")] == [planted]
            state = verify(reader)
            assert ([each.event_id for each in state.unreadable], state.problems) == ([planted], ())
        assert repair(log, remove_unreadable=True).unreadable == ()
        assert [entry.event for entry in log.read(strict=True)] == [*first, *last]

    def test_names_of_a_wrong_type_make_an_event_unreadable_not_the_log(self, log: EventLog, maker: Maker) -> None:
        """As rows of another program; a Delta table has types of its own."""
        if isinstance(log, DeltaEventLog):
            return
        log.append(maker.one_of_each())
        bodies = {
            "partition": ['{"partition_ref":["l"],"status_code":4}', '{"partition_ref":5,"status_code":4}'],
            "job": ['{"job_run_id":{"a":1},"job_label":"l","status_code":1}'],
            "build_request": ['{"requested_partitions":"abc","status_code":1}', '{"status_code":1} and more'],
        }
        for kind, texts in bodies.items():
            for text in texts:
                plant_body(log, f"{kind} {text}", kind, text)
        found = verify(log)
        assert (len(found.unreadable), found.problems) == (5, ())
        prune(log, SECOND)
        assert repair(log, remove_unreadable=True).unreadable == ()
        assert len(log.read(strict=True)) == 9

    def test_verify_is_right_while_others_append(self, log: EventLog, uri: str, maker: Maker) -> None:
        log.append(generated_history(300))
        stop = threading.Event()

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                log.append([maker.event("live", Partition(f"live{number}", PartitionStatus.REQUESTED))])

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for reader in _and_another(self, log, uri):
                assert [verify(reader).problems for _ in range(3)] == [()] * 3
        finally:
            stop.set()
            thread.join(30)

    def test_a_subclass_is_stored_as_what_it_is(self, log: EventLog, maker: Maker) -> None:
        class Liar(str):
            """Says that it is short and plain."""

            __slots__ = ()

            def isascii(self) -> bool:
                return True

            def __contains__(self, part: object) -> bool:
                return False

            def __len__(self) -> int:
                return 1

        class Empty(dict):  # type: ignore[type-arg]
            def values(self) -> Any:
                return []

        class Twice(tuple):  # type: ignore[type-arg]
            __slots__ = ()

            def __iter__(self) -> Any:
                return iter((None, 5))

        for wrong in (Liar("a\0b"), Liar("x" * 2000), Liar("half \ud800 pair")):
            with pytest.raises(MalformedEventError):
                log.append([maker.event("b", Partition(wrong, PartitionStatus.REQUESTED))])
        deep: Any = 1
        for _ in range(5000):
            deep = Empty(a=deep)
        shared: Any = []
        for _ in range(60):
            shared = [shared, shared]
        for graph in (deep, shared):
            with pytest.raises(MalformedEventError):
                log.append([maker.event("b", JobGraph(graph))])
        log.append([maker.event(Liar("b"), Job("r", "l", Twice(("p", "q")), JobStatus.RUNNING, "", Empty(a=[1])))])
        (read,) = [entry.event for entry in log.read(strict=True)]
        assert read.payload == Job("r", "l", ("p", "q"), JobStatus.RUNNING, "", {"a": [1]})
        assert verify(log).problems == ()

    def test_a_migration_does_not_stop_open_writers(self, log: EventLog, uri: str, maker: Maker) -> None:
        if not self.shared:
            return
        with open_event_log(uri) as other:
            log.append([maker.event("b", BuildRequest(BuildStatus.RECEIVED))])
            for version in (1, 2, 1, 2):
                other.migrate(version)
                log.append([maker.event("b", BuildRequest(BuildStatus.PLANNING, (), f"at {version}"))])
                assert log.schema_version == other.schema_version == version
            assert len(log.read(strict=True)) == len(other.read(strict=True)) == 5

    def test_a_log_that_becomes_newer_takes_no_more_events_until_it_is_rolled_back(
        self, log: EventLog, uri: str, maker: Maker
    ) -> None:
        log.append(maker.one_of_each())
        set_version(log, 99)
        with pytest.raises(NewerLogError):
            log.append(maker.one_of_each("b2"))
        assert len(log.read(strict=True)) == 9, "what is there can be read"
        if self.shared:
            with pytest.raises(NewerLogError):
                open_event_log(uri)
        set_version(log, 2)
        log.append(maker.one_of_each("b3"))
        for reader in _and_another(self, log, uri):
            assert len(reader.read(strict=True)) == 18

    def test_a_closed_log_takes_and_gives_nothing(self, uri: str, maker: Maker) -> None:
        log = open_event_log(uri)
        log.append(maker.one_of_each())
        log.close()
        for use in (lambda: log.append(maker.one_of_each("b2")), lambda: log.read(strict=True)):
            with pytest.raises(EventLogError, match="closed"):
                use()

    @pytest.mark.parametrize(
        "sql",
        [
            "UPDATE penstock_build SET status = 6",
            "DELETE FROM penstock_partition",
            "UPDATE penstock_job SET message = 'other'",
            "DELETE FROM penstock_event_partition",
            "UPDATE penstock_meta SET value = '1' WHERE name = 'last_position'",
        ],
    )
    def test_states_that_do_not_follow_from_the_events_are_found_and_repaired(self, log: EventLog, sql: str) -> None:
        events = generated_history(300)
        log.append(events)
        assert verify(log).is_sound
        activity, head = projections.activity(log), log.head(strict=True)
        run(log, sql)
        found = verify(log)
        assert found.problems
        assert found.events == 300
        assert repair(log).is_sound
        assert (projections.activity(log), log.head(strict=True)) == (activity, head)

    def test_compaction_and_rebuilding_change_no_answer(self, log: EventLog) -> None:
        log.append(generated_history(300))
        before = (log.read(strict=True), projections.activity(log))
        done = log.compact()
        assert done.bytes_after <= done.bytes_before or done.files_after <= done.files_before
        log.rebuild()
        assert (log.read(strict=True), projections.activity(log)) == before

    def test_redaction_takes_text_out_and_leaves_what_happened(self, log: EventLog, uri: str, maker: Maker) -> None:
        ref = f"people/email={SECRET}"
        events = [
            maker.event("b", BuildRequest(BuildStatus.RECEIVED, (ref,), f"for {SECRET}")),
            maker.event(
                "b", Job("r", "people", (ref,), JobStatus.FAILED, SECRET, {SECRET: [SECRET]}, ({"a": SECRET},))
            ),
            maker.event("b", Partition(ref, PartitionStatus.FAILED, SECRET, "r")),
            maker.event("b", PartitionInvalidation(ref, SECRET)),
            maker.event("b", BuildRequest(BuildStatus.FAILED, (), "nothing to hide")),
        ]
        log.append(events)
        log.append(generated_history(60))
        (changed,) = redact_events(log, [events[0].event_id]).event_ids
        assert changed == events[0].event_id
        first = log.read(strict=True)[0].event.payload
        assert first == BuildRequest(BuildStatus.RECEIVED, (ref,), REDACTED)
        assert len(redact_texts(log, [SECRET]).event_ids) == 4
        for reader in _and_another(self, log, uri):
            found = [entry.event for entry in reader.read(strict=True)]
            assert len(found) == 65
            assert [(e.event_id, e.timestamp, e.event_type) for e in found[:5]] == [
                (e.event_id, e.timestamp, e.event_type) for e in events
            ]
            assert SECRET not in str(found)
            hidden = f"people/email={REDACTED}"
            assert projections.partition_state(reader, ref) is None
            state = projections.partition_state(reader, hidden)
            assert state is not None
            assert (state.status.name, state.invalidated_reason) == ("FAILED", REDACTED)
            assert verify(reader).problems == ()
            assert redact_texts(reader, [SECRET]).event_ids == ()
        log.append(maker.one_of_each("later"))
        assert verify(log).problems == ()

    def test_one_call_that_fails_does_not_fail_the_others_of_its_group(
        self, log: EventLog, maker: Maker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert isinstance(log, SqlEventLog)
        write, started = log._group._write, threading.Event()

        def refuse(batch: Sequence[Encoded]) -> object:
            started.wait(10)
            if any(item.event.build_request_id == "bad" for item in batch):
                raise EventLogError("a bad event")
            return write(batch)

        monkeypatch.setattr(log._group, "_write", refuse)
        failed: list[str] = []

        def append(build: str) -> None:
            try:
                log.append([maker.event(build, BuildRequest(BuildStatus.RECEIVED))])
            except EventLogError:
                failed.append(build)

        threads = [threading.Thread(target=append, args=(build,)) for build in ("b1", "b2", "bad", "b3", "b4")]
        for thread in threads:
            thread.start()
        started.set()
        for thread in threads:
            thread.join(30)
        assert failed == ["bad"]
        assert len(log.read(strict=True)) == 4

    def test_lists_of_partitions_and_jobs_page(self, log: EventLog, maker: Maker) -> None:
        for number in range(5):
            log.append([maker.event("b", Partition(f"p{number}", PartitionStatus.REQUESTED))])
            log.append([maker.event("b", Job(f"r{number}", "l", (), JobStatus.RUNNING))])
        assert [p.partition_ref for p in projections.list_partitions(log, limit=2, offset=1)] == ["p3", "p2"]
        assert [job.job_run_id for job in projections.list_jobs(log, limit=2, offset=3)] == ["r1", "r0"]

    def test_prune_keeps_the_head_the_first_invalidation_and_what_still_happens(
        self, log: EventLog, maker: Maker
    ) -> None:
        def at(seconds: int, build: str, payload: BuildRequest | PartitionInvalidation | Job) -> None:
            log.append([replace(maker.event(build, payload), timestamp=seconds * SECOND)])

        at(1, "abandoned", BuildRequest(BuildStatus.EXECUTING))
        at(1, "abandoned", Job("r1", "l", (), JobStatus.RUNNING))
        at(1, "slow", BuildRequest(BuildStatus.EXECUTING))
        at(1, "slow", Job("r2", "l", (), JobStatus.RUNNING))
        at(2, "x", PartitionInvalidation("p", "first"))
        at(3, "y", PartitionInvalidation("p", "second"))
        at(50, "slow", Job("r3", "l", (), JobStatus.RUNNING))
        at(4, "z", Job("r4", "l", (), JobStatus.COMPLETED))
        partition, head = projections.partition_state(log, "p"), log.head(strict=True)
        assert partition is not None
        assert partition.build_request_id == "x"
        done = prune(log, 10 * SECOND)
        assert (done.removed, done.kept) == (1, 7), "only the job of the build that nobody works on"
        assert projections.partition_state(log, "p") == partition
        assert log.head(strict=True) == head == log.append([])
        assert {job.job_run_id for job in projections.list_jobs(log)} == {"r2", "r3", "r4"}
        assert verify(log).is_sound
        log.rebuild()
        assert projections.partition_state(log, "p") == partition
        assert log.head(strict=True) == head


def _and_another(contract: RobustLogContract, log: EventLog, uri: str) -> Iterator[EventLog]:
    """The log, and the same one opened again."""
    yield log
    if contract.shared:
        with open_event_log(uri) as again:
            yield again
