"""Schedules: what is due is run once, by whichever scheduler; the event log is the only state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from contract.test_eventlog_postgres import fresh_schema
from penstock.config.project_file import load_project
from penstock.errors import PenstockError, UsageError
from penstock.eventlog import projections
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import ManualClock
from penstock.model.jobs import Due
from penstock.model.status import BuildStatus
from penstock.run.builds import Builds, _submitted
from penstock.run.scheduling import Scheduling, Timetable

START = datetime(2026, 3, 1, 2, 30, tzinfo=UTC)
YML = """
name: shop
event_log: {log}
schedules:
  catch_up: {rule}
  project: "0 3 * * *"
  tables: {{hourly: "0 * * * *"}}
"""


class Scheduler:
    """One scheduler in a checkout of its own, and what it ran."""

    def __init__(self, folder: Path, log: str, rule: str = "latest") -> None:
        folder.mkdir(exist_ok=True)
        (folder / "penstock.yml").write_text(YML.format(log=log, rule=rule))
        self.clock = ManualClock(int(START.timestamp()) * 10**9)
        self.builds = Builds(load_project(folder / "penstock.yml", environment={}), self.clock)
        self.timetable = Timetable(self.builds.project.schedules, START)
        self.ran: list[str] = []

    def at(self, moment: datetime, during: Callable[[Due], None] = lambda _: None) -> list[str]:
        """What it runs at a moment."""
        self.clock.advance(int(moment.timestamp()) * 10**9 - self.clock.now_ns())
        self.ran = []

        def run(due: Due) -> str:
            during(due)
            self.ran.append(str(due))
            with self.builds.open_unlocked(due.build_request_id):
                return "done"

        Scheduling(self.builds).run_due(self.timetable, threading.Event(), run)
        return self.ran


def test_what_is_due_is_run_once_and_after_a_restart_too(tmp_path: Path) -> None:
    log = f"sqlite:///{tmp_path}/log.db"
    scheduler = Scheduler(tmp_path / "one", log)
    assert scheduler.at(START) == []
    three = START.replace(hour=3, minute=0)
    assert scheduler.at(three) == ["project of 2026-03-01T03:00+00:00", "main.hourly of 2026-03-01T03:00+00:00"]
    assert scheduler.at(three + timedelta(minutes=1)) == []
    again = Scheduler(tmp_path / "one", log)
    assert again.at(three + timedelta(minutes=2)) == [], "the log knows that they were run"
    assert again.at(three + timedelta(hours=5)) == ["main.hourly of 2026-03-01T08:00+00:00"], "one run for all"
    with open_event_log(log) as opened:
        states = projections.list_builds(opened).builds
    assert {state.status for state in states} == {BuildStatus.COMPLETED}
    assert states[0].build_request_id == "schedule-main.hourly-20260301T080000Z"
    everything = Scheduler(tmp_path / "one", log, "all")
    assert len(everything.at(three + timedelta(hours=8))) == 3


@pytest.mark.parametrize("backend", ["sqlite", "postgres", "delta"])
def test_of_two_schedulers_one_runs_it(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    log = {
        "sqlite": f"sqlite:///{tmp_path}/log.db",
        "postgres": fresh_schema(request.getfixturevalue("postgres_server")) if backend == "postgres" else "",
        "delta": f"delta:///{tmp_path}/log",
    }[backend]
    one, two = Scheduler(tmp_path / "one", log), Scheduler(tmp_path / "two", log)
    beside = Scheduler(tmp_path / "one", log)
    moment = START.replace(hour=3, minute=0)
    during: list[str] = []

    def look(due: Due) -> None:
        if due.what == "project":  # the others come while it runs: on the same machine, and on another
            during.extend([*two.at(moment), *beside.at(moment)])

    assert one.at(moment, look) == ["project of 2026-03-01T03:00+00:00"]
    assert during == ["main.hourly of 2026-03-01T03:00+00:00"], "what is left, once"


def test_a_run_that_fails_is_recorded_and_the_next_one_goes_on(tmp_path: Path) -> None:
    log = f"sqlite:///{tmp_path}/log.db"
    scheduler = Scheduler(tmp_path / "one", log)

    def fail(due: Due) -> None:
        if due.what == "project":
            raise PenstockError("a definition is broken")

    assert scheduler.at(START.replace(hour=3, minute=0), fail) == ["main.hourly of 2026-03-01T03:00+00:00"]
    with open_event_log(log) as opened:
        state = projections.build_state(opened, "schedule-project-20260301T030000Z")
        assert state is not None
        assert (state.status, state.message) == (BuildStatus.FAILED, "a definition is broken")
    assert _submitted == {}


def test_a_scheduler_stops_when_it_is_told_and_a_project_without_schedules_is_refused(tmp_path: Path) -> None:
    scheduler = Scheduler(tmp_path / "one", f"sqlite:///{tmp_path}/log.db")
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    Scheduling(scheduler.builds).follow(stop, lambda _: "")
    assert stop.is_set()
    (tmp_path / "penstock.yml").write_text("name: shop\n")
    empty = Builds(load_project(tmp_path / "penstock.yml", environment={}), scheduler.clock)
    with pytest.raises(UsageError, match="has no schedules"):
        Scheduling(empty).follow(threading.Event(), lambda _: "")
