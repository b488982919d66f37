from __future__ import annotations

import uuid

import pytest

from penstock.model.clock import ManualClock, SystemClock, uuid7
from penstock.model.events import BuildCancel, BuildRequest, EventType, Job, Partition
from penstock.model.recording import BuildRecorder, standalone_event
from penstock.model.status import BuildStatus, IllegalMoveError, JobStatus, PartitionStatus


def test_ids_are_uuid7_and_sort_by_time() -> None:
    clock = ManualClock()
    ids = []
    for _ in range(50):
        ids.append(uuid7(clock))
        clock.advance(1_000)
    assert ids == sorted(ids)
    assert {uuid.UUID(value).version for value in ids} == {7}
    assert uuid.UUID(ids[0]).variant == uuid.RFC_4122
    assert uuid.UUID(ids[0]).int >> 80 == clock.now_ns() // 1_000_000
    assert uuid7(clock, bytes) == uuid7(clock, bytes)
    assert uuid7(SystemClock()) != uuid7(SystemClock())


def test_a_whole_build_is_recorded() -> None:
    recorder = BuildRecorder(ManualClock(), "b1")
    run = recorder.new_job_run()
    events = [
        recorder.build(BuildStatus.RECEIVED, requested_partitions=["p"]),
        recorder.build(BuildStatus.PLANNING),
        recorder.build(BuildStatus.ANALYSIS_COMPLETED),
        recorder.job_graph({"jobs": ["a"]}),
        recorder.build(BuildStatus.EXECUTING),
        recorder.partition("p", PartitionStatus.REQUESTED),
        recorder.job(run, JobStatus.SCHEDULED, job_label="a", target_partitions=["p"]),
        recorder.partition("p", PartitionStatus.SCHEDULED, job_run_id=run),
        recorder.job(run, JobStatus.RUNNING),
        recorder.job(run, JobStatus.RUNNING, message="still here"),
        recorder.partition("p", PartitionStatus.BUILDING, job_run_id=run),
        recorder.job(run, JobStatus.COMPLETED, manifests=[{"rows": 1}]),
        recorder.partition("p", PartitionStatus.AVAILABLE, job_run_id=run),
        recorder.partition("q", PartitionStatus.REQUESTED),
        recorder.delegation("q", "b0"),
        recorder.partition("q", PartitionStatus.DELEGATED),
        recorder.invalidate("p", "why not"),
        recorder.cancel_job(run, "late"),
        recorder.cancel_build("late"),
        recorder.build(BuildStatus.CANCELLED),
    ]
    assert {event.event_type for event in events} == set(EventType)
    assert {event.build_request_id for event in events} == {"b1"}
    assert events[11].payload == Job(run, "a", ("p",), JobStatus.COMPLETED, "", None, ({"rows": 1},))


def test_an_illegal_move_is_refused_and_changes_nothing() -> None:
    recorder = BuildRecorder(ManualClock(), "b1")
    with pytest.raises(IllegalMoveError):
        recorder.build(BuildStatus.EXECUTING)
    with pytest.raises(IllegalMoveError):
        recorder.partition("p", PartitionStatus.AVAILABLE)
    with pytest.raises(IllegalMoveError):
        recorder.job("r", JobStatus.COMPLETED)
    recorder.build(BuildStatus.RECEIVED)


def test_a_recorder_goes_on_where_another_stopped() -> None:
    first = BuildRecorder(ManualClock(), "b1")
    events = [
        first.build(BuildStatus.RECEIVED),
        first.job("r", JobStatus.SCHEDULED, job_label="a", target_partitions=["p"]),
    ]
    stranger = BuildRecorder(ManualClock(), "b2").build(BuildStatus.RECEIVED)
    second = BuildRecorder(ManualClock(), "b1")
    second.resume([*events, stranger])
    job = second.job("r", JobStatus.RUNNING).payload
    assert isinstance(job, Job)
    assert (job.job_label, job.target_partitions) == ("a", ("p",))
    with pytest.raises(IllegalMoveError):
        second.build(BuildStatus.RECEIVED)


def test_a_person_s_event_needs_no_recorder() -> None:
    event = standalone_event(ManualClock(), "b1", BuildCancel("stop"))
    assert event.event_type is EventType.BUILD_CANCEL


@pytest.mark.parametrize(("status", "job"), [(BuildStatus.FAILED, "FAILED"), (BuildStatus.CANCELLED, "CANCELLED")])
def test_the_end_of_a_build_ends_everything_in_it_once(status: BuildStatus, job: str) -> None:
    recorder = BuildRecorder(ManualClock(), "b1")
    for step in (BuildStatus.RECEIVED, BuildStatus.PLANNING, BuildStatus.ANALYSIS_COMPLETED, BuildStatus.EXECUTING):
        recorder.build(step)
    steps = (PartitionStatus.REQUESTED, PartitionStatus.SCHEDULED, PartitionStatus.BUILDING, PartitionStatus.AVAILABLE)
    for name, reached in (("requested", 1), ("scheduled", 2), ("building", 3), ("available", 4)):
        for step in steps[:reached]:
            recorder.partition(name, step, job_run_id=f"run-{name}" if step > PartitionStatus.REQUESTED else None)
    for name, jobs in (("scheduled", 1), ("building", 2), ("available", 3)):
        for step in (JobStatus.SCHEDULED, JobStatus.RUNNING, JobStatus.COMPLETED)[:jobs]:
            recorder.job(f"run-{name}", step, job_label="l", target_partitions=[name])
    events = recorder.end(status, message="over", reason="a reason", reasons={"requested": "its own", "x": "unknown"})
    told = []
    for event in events:
        match event.payload:
            case Job() as ended:
                assert (ended.job_label, ended.target_partitions) == ("l", (ended.job_run_id.removeprefix("run-"),))
                told.append((ended.job_run_id, ended.status.name, ended.message))
            case Partition() as ended:
                told.append((ended.partition_ref, ended.status.name, f"{ended.message}, {ended.job_run_id}"))
            case BuildRequest() as ended:
                told.append(("build", ended.status.name, ended.message))
    assert told == [
        ("run-scheduled", "CANCELLED", "a reason"),
        ("run-building", job, "a reason"),
        ("requested", "FAILED", "its own, None"),
        ("scheduled", "FAILED", "a reason, run-scheduled"),
        ("building", "FAILED", "a reason, run-building"),
        ("build", status.name, "over"),
    ]
    with pytest.raises(IllegalMoveError):
        recorder.end(status, message="again", reason="again")


def test_a_build_that_never_began_cannot_end() -> None:
    with pytest.raises(IllegalMoveError):
        BuildRecorder(ManualClock(), "b1").end(BuildStatus.FAILED, message="", reason="")


def test_a_status_of_a_newer_version_is_left_alone_at_the_end() -> None:
    recorder = BuildRecorder(ManualClock(), "b1")
    known = BuildRecorder(ManualClock(), "b1")
    recorder.resume(
        [
            known.build(BuildStatus.RECEIVED),
            standalone_event(ManualClock(), "b1", Partition("p", PartitionStatus.UNKNOWN)),
            standalone_event(ManualClock(), "b1", Job("r", "l", (), JobStatus.UNKNOWN)),
        ]
    )
    (event,) = recorder.end(BuildStatus.FAILED, message="over", reason="a reason")
    assert event.payload == BuildRequest(BuildStatus.FAILED, (), "over")
