"""Random histories, legal or not: every backend answers as the plain model does, and all alike byte for byte."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from contract.answers_of import all_answers
from contract.test_eventlog_postgres import fresh_schema
from model_based.plain_log import PlainLog
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog, Filter
from penstock.eventlog.delta import DeltaEventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.events import (
    BuildCancel,
    BuildRequest,
    Delegation,
    Event,
    Job,
    JobGraph,
    Partition,
    PartitionInvalidation,
    TaskCancel,
)
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

BUILDS = st.sampled_from(["b1", "b2", "b3"])
REFS = st.sampled_from(["db.t1/day=1", "db.t1/day=2", "db.t[2]", "%_\\", "Ünï/x"])
RUNS = st.sampled_from(["r1", "r2", "r3"])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
REF_LISTS = st.lists(REFS, max_size=3).map(tuple)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
PAYLOADS = st.one_of(
    st.builds(BuildRequest, st.sampled_from(list(BuildStatus)[1:]), REF_LISTS, TEXT),
    st.builds(Partition, REFS, st.sampled_from(list(PartitionStatus)[1:]), TEXT, st.none() | RUNS),
    st.builds(
        Job, RUNS, st.sampled_from(["db.t1", "db.t2"]), REF_LISTS, st.sampled_from(list(JobStatus)[1:]), TEXT, JSON,
        st.lists(JSON, max_size=2).map(tuple),
    ),
    st.builds(Delegation, REFS, BUILDS, TEXT),
    st.builds(JobGraph, JSON, TEXT),
    st.builds(PartitionInvalidation, REFS, TEXT),
    st.builds(TaskCancel, RUNS, TEXT),
    st.builds(BuildCancel, TEXT),
)  # fmt: skip
EVENTS = st.builds(
    Event,
    st.integers(0, 60).map(lambda n: f"id-{n}"),
    st.integers(0, 5).map(lambda n: 1_700_000_000_000_000_000 + n * 40_000_000_000_000),
    BUILDS,
    PAYLOADS,
)


class Logs(RuleBasedStateMachine):
    """One history in every log and in the model."""

    server = ""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.model = PlainLog()
        self.stack = contextlib.ExitStack()
        self.logs: dict[str, EventLog] = {
            name: self.stack.enter_context(open_event_log(uri))
            for name, uri in {
                "memory": "memory://",
                "sqlite": f"sqlite:///{self.folder}/log.db?synchronous=off",
                "postgres": fresh_schema(self.server),
                "delta": f"delta://{self.folder}/table?cache={self.folder}/cache",
            }.items()
        }
        self.appended = 0

    @rule(events=st.lists(EVENTS, min_size=1, max_size=12))
    def append(self, events: list[Event]) -> None:
        self.model.append(events)
        for log in self.logs.values():
            log.append(events)

    @rule()
    def compact(self) -> None:
        delta = self.logs["delta"]
        assert isinstance(delta, DeltaEventLog)
        if self.model.events:
            delta.table().compact()

    @rule(pattern=st.sampled_from(["*", "db.t1/*", "db.t[2]", "db.t?2?", "%*", "Ü*", "*/day=?", "nothing*"]))
    def find(self, pattern: str) -> None:
        expected = self.model.matching(pattern)
        for log in self.logs.values():
            assert [entry.event for entry in log.read(filter=Filter(partitions=(pattern,)))] == expected

    @invariant()
    def the_backends_agree(self) -> None:
        if len(self.model.events) == self.appended:
            return
        self.appended = len(self.model.events)
        expected = all_answers(self.logs["memory"], self.model.events)
        for log in self.logs.values():
            assert all_answers(log, self.model.events) == expected

    @invariant()
    def the_model_agrees(self) -> None:
        log, model = self.logs["memory"], self.model
        assert [entry.event for entry in log.read()] == model.events
        assert [build.build_request_id for build in projections.list_builds(log).builds] == model.builds()
        for build in ("b1", "b2", "b3"):
            state, plain = projections.build_state(log, build), model.build(build)
            assert (state is None) == (plain is None)
            if state is not None and plain is not None:
                found = (state.status, state.requested_partitions, state.created_at, state.updated_at)
                assert found == (plain["status"], plain["requested"], plain["created"], plain["updated"])
                assert (state.cancel_reason is None) == (plain["cancel"] is None)
        for ref in ("db.t1/day=1", "db.t1/day=2", "db.t[2]"):
            assert projections.build_that_made(log, ref) == model.available(ref)
            assert [active.build_request_id for active in projections.active_builds(log, ref)] == model.active(ref)
            partition = projections.partition_state(log, ref)
            latest = (int(partition.status), partition.build_request_id) if partition else None
            assert latest == model.latest(ref)
        assert projections.activity(log).jobs == model.job_statuses()

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.folder)


CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much]


def test_random_histories_give_the_same_answers_everywhere(postgres_server: str) -> None:
    Logs.server = postgres_server
    run_state_machine_as_test(
        Logs, settings=settings(max_examples=8, stateful_step_count=8, deadline=None, suppress_health_check=CHECKS)
    )


@pytest.mark.deep
def test_many_random_histories_give_the_same_answers_everywhere(postgres_server: str) -> None:
    Logs.server = postgres_server
    run_state_machine_as_test(
        Logs, settings=settings(max_examples=150, stateful_step_count=20, deadline=None, suppress_health_check=CHECKS)
    )
