"""Random histories: a recorder makes exactly the legal events, and the log alone gives the same state."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.eventlog import projections
from penstock.eventlog.memory import MemoryEventLog
from penstock.model.build_history import BuildHistory, JobHistory, find_illegal_moves, replay
from penstock.model.clock import ManualClock
from penstock.model.events import BuildCancel, BuildRequest, Event, Job, Partition, TaskCancel
from penstock.model.recording import BuildRecorder, standalone_event
from penstock.model.status import MOVES, BuildStatus, IllegalMoveError, JobStatus, PartitionStatus

REFS = ("t/date=1", "t/date=2")
RUNS = ("r1", "r2")

STEPS = st.one_of(
    st.builds(BuildRequest, st.sampled_from([s for s in BuildStatus if s.value])),
    st.builds(
        Partition,
        st.sampled_from(REFS),
        st.sampled_from([s for s in PartitionStatus if s.value]),
        job_run_id=st.sampled_from([None, *RUNS]),
    ),
    st.builds(
        Job,
        st.sampled_from(RUNS),
        st.just("t"),
        st.just(REFS),
        st.sampled_from([s for s in JobStatus if s.value]),
        config=st.sampled_from([None, {"attempt": 2}]),
    ),
    st.builds(BuildCancel, st.just("stop")),
    st.builds(TaskCancel, st.sampled_from(RUNS), st.just("stop")),
)


class Model:
    """The state machines in a few lines: the last accepted status of each subject."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}

    def accepts(self, step: object) -> bool:
        if isinstance(step, BuildCancel | TaskCancel):
            return True
        assert isinstance(step, BuildRequest | Partition | Job)
        names = {BuildRequest: "build", Partition: "partition", Job: "job"}
        subject = f"{names[type(step)]} {getattr(step, 'partition_ref', '')}{getattr(step, 'job_run_id', '')}"
        if isinstance(step, Partition):
            subject = f"partition {step.partition_ref}"
        before = self.last.get(subject)
        legal = MOVES[type(step.status)]
        known = None if before is None else type(step.status)(before)
        if step.status not in legal.get(known, ()):
            return False
        self.last[subject] = step.status.value
        return True


@settings(max_examples=150)
@given(steps=st.lists(STEPS, max_size=40))
def test_a_recorder_makes_exactly_the_legal_events_and_the_log_alone_gives_its_state(steps: list[object]) -> None:
    clock, model = ManualClock(), Model()
    recorder = BuildRecorder(clock, "b")
    made: list[Event] = []
    for step in steps:
        try:
            made.append(recorder._make(step))  # type: ignore[arg-type]
            accepted = True
        except IllegalMoveError:
            accepted = False
        assert accepted is model.accepts(step)
    assert find_illegal_moves(made) == []
    assert replay(made) == ({"b": recorder.history} if made else {})
    resumed = BuildRecorder(clock, "b")
    resumed.resume(made)
    assert resumed.history == recorder.history


@settings(max_examples=40)
@given(steps=st.lists(STEPS, max_size=30))
def test_the_queries_of_a_log_say_what_its_replay_says(steps: list[object]) -> None:
    recorder = BuildRecorder(ManualClock(), "b")
    with MemoryEventLog(ManualClock()) as log:
        for step in (BuildRequest(BuildStatus.RECEIVED), *steps):
            try:
                log.append([recorder._make(step)])  # type: ignore[arg-type]
            except IllegalMoveError:
                continue
        history = replay(entry.event for entry in log.read())["b"]
        assert history == recorder.history
        build = projections.build_state(log, "b")
        assert build is not None
        assert (build.status, build.cancel_reason) == (history.status, history.cancel_reason)
        for run, job in history.jobs.items():
            state = projections.job_state(log, run)
            assert state is not None
            assert (state.status, state.target_partitions) == (job.status, job.targets)
        for ref, status in history.partitions.items():
            partition = projections.partition_state(log, ref)
            assert partition is not None
            assert partition.status is status


@settings(max_examples=100)
@given(steps=st.lists(STEPS, max_size=40), status=st.sampled_from([BuildStatus.FAILED, BuildStatus.CANCELLED]))
def test_a_build_that_ends_leaves_nothing_open(steps: list[object], status: BuildStatus) -> None:
    recorder = BuildRecorder(ManualClock(), "b")
    made = [recorder.build(BuildStatus.RECEIVED)]
    for step in steps:
        try:
            made.append(recorder._make(step))  # type: ignore[arg-type]
        except IllegalMoveError:
            continue
    if recorder.history.status in {BuildStatus.COMPLETED, BuildStatus.FAILED, BuildStatus.CANCELLED}:
        return
    made += recorder.end(status, message="over", reason="why")
    history = replay(made)["b"]
    assert history.status is status
    assert all(partition.is_final for partition in history.partitions.values())
    assert all(job.status.is_final for job in history.jobs.values())
    assert find_illegal_moves(made) == []


def test_attempts_are_counted_and_heartbeats_are_not() -> None:
    recorder = BuildRecorder(ManualClock(), "b")
    recorder.job("r", JobStatus.SCHEDULED, job_label="t", target_partitions=["p"])
    for config in (None, None, {"attempt": 2}, None):
        recorder.job("r", JobStatus.RUNNING, config=config)
    assert recorder.history.jobs["r"] == JobHistory("t", ("p",), JobStatus.RUNNING, 2)


def test_a_log_with_a_status_out_of_order_is_named() -> None:
    clock = ManualClock()
    wrong = [
        standalone_event(clock, "b", BuildRequest(BuildStatus.EXECUTING)),
        standalone_event(clock, "c", BuildRequest(BuildStatus.RECEIVED)),
    ]
    assert find_illegal_moves(wrong) == [(wrong[0], "build b has no status yet and cannot become EXECUTING")]
    history = BuildHistory("other")
    history.fold(wrong[0])
    assert history.status is None
