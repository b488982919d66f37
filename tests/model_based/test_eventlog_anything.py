"""Anything that a caller may append, and anything that may lie in a log: every backend takes, refuses and reads the same."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from contract.answers_of import all_answers
from contract.damage import DAMAGES, plant, set_version
from contract.test_eventlog_postgres import fresh_schema
from model_based.test_eventlog_model import EVENTS
from penstock.eventlog.contract import EventLog, MalformedEventError, NewerLogError
from penstock.eventlog.maintenance import verify
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.prune import prune
from penstock.model.events import Event
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=3),
    st.text(max_size=5),
    st.sampled_from(["\0", "half \ud800 pair", "é" * 501, "x" * 1001, "x" * 1000, "long " * 40_000]),
    st.sampled_from(
        [deep(99), deep(101), deep(980), deep(30_000), 10**4000, 1 << 63, {1: 2}, {"a": {1}}, (), [], ("a", None)]
    ),
    st.sampled_from([*BuildStatus, *PartitionStatus, *JobStatus]),
    st.lists(st.text(max_size=2), max_size=2).map(tuple),
    st.dictionaries(st.text(max_size=2), st.floats(), max_size=2),
)


@st.composite
def odd_events(draw: st.DrawFn) -> Any:
    """A good event with one field that may be anything."""
    event = draw(EVENTS)
    event = replace(event, event_id=f"odd {draw(st.integers(0, 10**9))}")
    name = draw(
        st.sampled_from(["event_id", "timestamp", "build_request_id", *[f.name for f in fields(event.payload)]])
    )
    value = draw(ODD)
    if name in {"event_id", "timestamp", "build_request_id"}:
        return replace(event, **{name: value})
    return replace(event, payload=replace(event.payload, **{name: value}))


class AnyLogs(RuleBasedStateMachine):
    """The same calls on every backend."""

    server = ""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.stack = contextlib.ExitStack()
        self.events: list[Event] = []
        self.is_changed = False
        uris = {
            "memory": "memory://",
            "sqlite": f"sqlite:///{self.folder}/log.db?synchronous=off",
            "postgres": fresh_schema(self.server),
            "delta": f"delta://{self.folder}/table?cache={self.folder}/cache",
        }
        self.logs: dict[str, EventLog] = {n: self.stack.enter_context(open_event_log(u)) for n, u in uris.items()}

    @rule(good=st.lists(EVENTS, max_size=3), odd=odd_events())
    def append(self, good: list[Event], odd: Event) -> None:
        results = {name: self._append(log, [*good, odd]) for name, log in self.logs.items()}
        assert len(set(results.values())) == 1, results
        if results["memory"] is None:
            self.events += [*good, odd]
        self.is_changed = True

    @staticmethod
    def _append(log: EventLog, events: list[Event]) -> str | None:
        try:
            log.append(events)
        except MalformedEventError as error:
            return str(error)
        return None

    @rule(damage=st.sampled_from(DAMAGES))
    def find_something_unreadable(self, damage: str) -> None:
        if any(event.event_id == f"planted {damage}" for event in self.events):
            return
        for log in self.logs.values():
            plant(log, damage)
        self.events.append(self.logs["memory"].last(1)[0].event)
        self.is_changed = True

    @rule(events=st.lists(EVENTS, min_size=1, max_size=3))
    def meet_a_newer_version(self, events: list[Event]) -> None:
        for log in self.logs.values():
            set_version(log, 99)
            with pytest.raises(NewerLogError):
                log.append([replace(event, event_id=f"late {event.event_id}") for event in events])
            set_version(log, 2)

    @rule(days=st.integers(0, 5))
    def prune(self, days: int) -> None:
        before = 1_700_000_000_000_000_000 + days * 40_000_000_000_000
        assert (
            len({(result.removed, result.kept) for result in (prune(log, before) for log in self.logs.values())}) == 1
        )
        self.is_changed = True

    @invariant()
    def every_answer_is_the_same(self) -> None:
        if not self.is_changed:
            return
        self.is_changed = False
        expected = all_answers(self.logs["memory"], self.events)
        for name, log in self.logs.items():
            assert all_answers(log, self.events) == expected, name
            assert verify(log).problems == (), name

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.folder)


CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]


def test_anything_is_refused_or_read_alike(postgres_server: str) -> None:
    AnyLogs.server = postgres_server
    run_state_machine_as_test(
        AnyLogs, settings=settings(max_examples=8, stateful_step_count=8, deadline=None, suppress_health_check=CHECKS)
    )


@pytest.mark.deep
def test_anything_and_much_of_it_is_refused_or_read_alike(postgres_server: str) -> None:
    AnyLogs.server = postgres_server
    run_state_machine_as_test(
        AnyLogs,
        settings=settings(max_examples=120, stateful_step_count=20, deadline=None, suppress_health_check=CHECKS),
    )
