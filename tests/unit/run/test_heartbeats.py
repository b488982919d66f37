"""Signs of life: one append for all builds of a process, as long as they execute."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from penstock.eventlog.contract import AppendError, Position
from penstock.eventlog.memory import MemoryEventLog
from penstock.model.clock import ManualClock
from penstock.model.events import Event
from penstock.model.recording import BuildRecorder
from penstock.model.status import BuildStatus
from penstock.run.claims.asking import Claims
from penstock.run.claims.heartbeats import Heartbeats

STEPS = (BuildStatus.RECEIVED, BuildStatus.PLANNING, BuildStatus.ANALYSIS_COMPLETED, BuildStatus.EXECUTING)


class Counting(MemoryEventLog):
    """A log that counts appends, and fails the first one after `is_broken` was set."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.appends: list[Sequence[Event]] = []
        self.has_three = threading.Event()
        self.is_broken = False

    def append(self, events: Sequence[Event]) -> Position:
        self.appends.append(events)
        if len(self.appends) >= 3:
            self.has_three.set()
        if self.is_broken:
            self.is_broken = False
            raise AppendError("no disk", events)
        return super().append(events)


def executing(name: str) -> BuildRecorder:
    recorder = BuildRecorder(ManualClock(), name)
    for step in STEPS:
        recorder.build(step)
    return recorder


def test_one_append_is_for_every_build_that_executes() -> None:
    ended, planning = executing("ended"), BuildRecorder(ManualClock(), "planning")
    ended.end(BuildStatus.COMPLETED, message="", reason="")
    planning.build(BuildStatus.RECEIVED)
    with Counting() as log:
        Heartbeats(log, [executing("b1"), ended, planning, executing("b2")]).beat()
        Heartbeats(log, [ended]).beat()
        (events,) = log.appends
    assert [event.build_request_id for event in events] == ["b1", "b2"]


def test_heartbeats_go_on_though_the_log_could_not_be_reached_once() -> None:
    before = threading.active_count()
    with Counting() as log:
        log.is_broken = True
        with Heartbeats(log, [executing("b1")], seconds=0.01):
            assert log.has_three.wait(20)
        assert threading.active_count() == before
        count = len(log.appends)
        assert len(log.read()) == count - 1


def test_a_lapse_is_longer_than_an_append_may_take() -> None:
    with Counting() as log, pytest.raises(ValueError, match="must be longer than an append may take"):
        Claims(log, executing("b1"), lapse_seconds=60, append_seconds=60)
