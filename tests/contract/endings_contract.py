"""What every event log says about builds that have not ended, and how builds of dead processes are closed in it."""

from __future__ import annotations

from pathlib import Path

from builders import make_item
from contract.events import Maker, build_history
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import ManualClock
from penstock.model.events import BuildCancel, Job, Partition
from penstock.model.plan import Plan
from penstock.model.recording import BuildRecorder
from penstock.model.results import RunResult
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus
from penstock.run.dead_builds import DIED, close_dead_builds, describe_owner
from penstock.run.locking import Holder, alive_file
from penstock.run.recording import RunRecorder

PLAN = Plan("shop", None, (make_item("a"), make_item("b"), make_item("c", "a")))


def begin(log: EventLog, build: str, lock: str | None = None, *, step: str = "working") -> RunRecorder:
    """A pipeline run that came as far as the step: one item in progress and two requested."""
    owner = describe_owner(Holder(build, 7, "host", "noon"), lock) if lock else ""
    recorder = RunRecorder(log, BuildRecorder(ManualClock(), build), owner)
    recorder.received("penstock run")
    if step != "planning":
        recorder.planned(PLAN)
    if step == "working":
        recorder.started(PLAN.items[0])
    return recorder


def close(log: EventLog, lock: str, folder: Path) -> list[str]:
    """What the next run in this folder does."""
    return close_dead_builds(log, ManualClock(), folder, lock)


def open_things(log: EventLog, build: str) -> list[str]:
    """Every job run and partition of a build, as it says itself, that has no final status; and the build."""
    last: dict[str, BuildStatus | JobStatus | PartitionStatus] = {}
    for entry in projections.events_of_build(log, build, strict=True):
        payload = entry.event.payload
        if isinstance(payload, Job):
            last[payload.job_run_id] = payload.status
        elif isinstance(payload, Partition):
            last[payload.partition_ref] = payload.status
    state = projections.build_state(log, build)
    assert state is not None
    return [name for name, status in {**last, build: state.status}.items() if not status.is_final]


class EndingsContract:
    """The tests; part of `EventLogContract`."""

    shared = True

    def test_unfinished_builds_are_those_without_a_final_status(self, log: EventLog, maker: Maker) -> None:
        assert projections.unfinished_builds(log, strict=True) == []
        for outcome in ("completed", "failed", "cancelled", "running"):
            log.append(list(build_history(maker, f"b-{outcome}", ["p/1", "p/2"], outcome)))
        log.append([maker.event("only a cancel", BuildCancel("stop"))])
        for step in ("planning", "planned", "working"):
            begin(log, f"b-{step}", step=step)
        found = projections.unfinished_builds(log, strict=True)
        assert [(build.build_request_id, build.status.name) for build in found] == [
            ("b-running", "EXECUTING"),
            ("b-planning", "PLANNING"),
            ("b-planned", "EXECUTING"),
            ("b-working", "EXECUTING"),
        ]

    def test_the_next_run_in_the_same_folder_closes_a_dead_build(self, log: EventLog, tmp_path: Path) -> None:
        for step in ("planning", "planned", "working"):
            begin(log, f"dead-{step}", "mine", step=step)
        alive = alive_file(tmp_path, "dead-planned")
        assert alive.take()
        assert close(log, "mine", tmp_path) == ["dead-planning", "dead-working"], "the other one is alive"
        alive.release()
        assert close(log, "mine", tmp_path) == ["dead-planned"]
        for step in ("planning", "planned", "working"):
            state = projections.build_state(log, f"dead-{step}")
            assert state is not None
            assert (state.status, state.message) == (BuildStatus.FAILED, DIED)
            assert open_things(log, f"dead-{step}") == []
        (job,) = projections.list_jobs(log, build_request_id="dead-working")
        assert (job.status, job.message, job.target_partitions) == (JobStatus.FAILED, DIED, ("main.a",))
        partitions = projections.list_partitions(log)
        assert {(state.partition_ref, state.status, state.message) for state in partitions} == {
            (f"main.{name}", PartitionStatus.FAILED, DIED) for name in "abc"
        }
        assert projections.active_builds(log, "main.a", strict=True) == []
        assert close(log, "mine", tmp_path) == [], "once"

    def test_builds_of_other_folders_stay_untouched(self, log: EventLog, other_uri: str, tmp_path: Path) -> None:
        begin(log, "theirs", "other")
        begin(log, "nobody's")
        assert close(log, "mine", tmp_path) == []
        assert open_things(log, "theirs")
        if self.shared:
            with open_event_log(other_uri) as other:
                assert close(other, "other", tmp_path / "other") == ["theirs"]
            assert open_things(log, "theirs") == []
        assert open_things(log, "nobody's")

    def test_a_build_that_two_recorded_belongs_to_the_first(self, log: EventLog, tmp_path: Path) -> None:
        """Two schedulers may record the same scheduled build: the second one knows nothing about its process."""
        begin(log, "twice", "first", step="planning")
        begin(log, "twice", "second", step="planning")
        assert close(log, "second", tmp_path) == []
        assert close(log, "first", tmp_path) == ["twice"]

    def test_a_run_that_is_stopped_closes_itself(self, log: EventLog) -> None:
        recorder = begin(log, "b", "mine")
        recorder.cancelled(RunResult("b", (), 1.0, "stopped by Ctrl-C"), 60)
        assert open_things(log, "b") == []
        state = projections.build_state(log, "b")
        assert state is not None
        assert (state.status, state.message.split(":")[0]) == (BuildStatus.CANCELLED, "stopped by Ctrl-C")
        (job,) = projections.list_jobs(log)
        assert (job.status, job.message) == (JobStatus.CANCELLED, "stopped by Ctrl-C")
        assert {state.message for state in projections.list_partitions(log)} == {"stopped by Ctrl-C"}
        assert projections.unfinished_builds(log) == []
