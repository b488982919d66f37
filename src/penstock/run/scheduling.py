"""What is due by the schedules of a project, and following them. The event log is the only state.

A scheduled run is a build request whose id says what it is for and which time it stands for. So the log shows what was run last,
and of two schedulers that start the same one, only the first in log order runs it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.errors import PenstockError, UsageError
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import Clock
from penstock.model.jobs import Due, Schedules, find_unknown, scheduled_time, start_of_id
from penstock.model.nearest import did_you_mean
from penstock.run.builds import Builds

_LOGGER = logging.getLogger("penstock")
_LONGEST_WAIT = 30.0
"""Seconds between two looks at the clock, which may be set meanwhile."""
_NEWEST = 100


@dataclass(frozen=True, slots=True)
class Timetable:
    """The schedules of a project, and since when they are followed: earlier times were never due."""

    schedules: Schedules
    began: datetime

    def find_due(self, log: EventLog, now: datetime) -> list[Due]:
        """What is due by now and was not run, the oldest first; missed times by the rule of each schedule."""
        found = [
            Due(what, time)
            for what, schedule in self.schedules.items()
            for time in schedule.find_due(_find_last(log, what) or self.began, now)
        ]
        return sorted(found, key=lambda due: due.time)

    def next_after(self, now: datetime) -> datetime | None:
        """The next scheduled time; None when there is none."""
        times = (schedule.next_after(now) for schedule in self.schedules.values())
        return min((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Follows the schedules of one project."""

    builds: Builds

    @property
    def clock(self) -> Clock:
        return self.builds.clock

    def check(self, datasets: Collection[str] | None = None) -> None:
        """UsageError when there is nothing to follow, or a schedule is for something that is not one of these datasets."""
        if not self.builds.project.schedules:
            raise UsageError(
                "the project has no schedules", hint="add `schedules:` to penstock.yml, or schedule= to a definition"
            )

        for name in find_unknown(self.builds.project.schedules, datasets) if datasets is not None else ():
            raise UsageError(
                f"there is a schedule for {name}, and no such dataset{did_you_mean(name, datasets or ())}",
                hint="correct `schedules.tables` in penstock.yml; `penstock ls` lists the datasets",
            )

    def follow(self, stop: threading.Event, run: Callable[[Due], str]) -> None:
        """Run what is due, one after the other, until `stop` is set. `run` gets only what no other scheduler has begun.

        What fails is logged, and does not stop the others.
        """
        self.check()
        project = self.builds.project
        timetable = Timetable(project.schedules, self._now())
        while not stop.is_set():
            try:
                self.run_due(timetable, stop, run)
            except PenstockError as error:  # such as a log that does not answer: it is asked again
                _LOGGER.error("%s", error)
            following = timetable.next_after(self._now())
            seconds = _LONGEST_WAIT if following is None else (following - self._now()) / timedelta(seconds=1)
            stop.wait(max(0.05, min(_LONGEST_WAIT, seconds)))

    def run_due(self, timetable: Timetable, stop: threading.Event, run: Callable[[Due], str]) -> None:
        """Run what is due now."""
        with open_event_log(self.builds.project.event_log) as log:
            due = timetable.find_due(log, self._now())
        for each in due:
            if stop.is_set():
                return
            if not self.builds.submit_as(each.build_request_id, f"penstock scheduler: {each}"):
                continue  # another scheduler runs it
            _LOGGER.info("%s: begins", each)
            try:
                _LOGGER.info("%s: %s", each, run(each))
            except PenstockError as error:
                self.builds.withdraw(each.build_request_id, str(error))
                _LOGGER.error("%s: failed: %s", each, error)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ns() / 1e9, tz=UTC)


def _find_last(log: EventLog, what: str) -> datetime | None:
    """The newest scheduled time that was run, by any scheduler."""
    ids = projections.find_builds(log, start_of_id(what), limit=_NEWEST)
    return max((time for name in ids if (time := scheduled_time(name, what)) is not None), default=None)
