from __future__ import annotations

import uuid

import pytest

from penstock.model.clock import ManualClock, SystemClock, uuid7
from penstock.model.events import BuildCancel, EventType, Job
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
