"""Schedules: cron expressions in a time zone, when they are due, and what happens to times that were missed. Pure.

Where clocks are set, schedules follow the rule of Debian's cron. Fixed times: one that does not exist is run at the end of the
gap, one that occurs twice is run once. When minute or hour begins with `*`, the schedule follows the clock on the wall: what does
not exist is not run, what occurs twice is run twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import islice, takewhile

from cronsim import CronSim, CronSimError

from penstock.errors import Location, UsageError
from penstock.model.nearest import did_you_mean
from penstock.model.time_zones import ZONE_HINT, find_zone

MOST_MISSED = 1000
"""The most missed times that are run one by one: a scheduler that slept for a year does not run every minute of it."""
LATE = timedelta(minutes=1)
"""How late a run may be that does not count as missed."""
_FIELDS = 5
_LONGER_THAN_A_CHANGE = timedelta(hours=4)
"""Clocks are set by less than this."""


class CatchUp(StrEnum):
    """What happens to scheduled times that passed while no scheduler ran."""

    LATEST = "latest"
    """One run stands for all of them."""
    ALL = "all"
    """One run for each."""
    NONE = "none"
    """Nothing: only a time within the last minute is run."""


class ScheduleError(UsageError):
    """A schedule that cannot be understood."""

    code = "schedule"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When something is due. Make it with `to_schedule`, which checks it."""

    expression: str
    zone: tzinfo = UTC
    catch_up: CatchUp = CatchUp.LATEST
    location: Location | None = field(default=None, compare=False)
    """Where penstock.yml declares it."""

    def next_after(self, moment: datetime) -> datetime | None:
        """The first scheduled time after a moment, in UTC; None if there is none for many years."""
        return next(self._after(moment), None)

    def find_due(self, last: datetime, now: datetime) -> list[datetime]:
        """The scheduled times to run now, in UTC and in order; `last` is the newest that was run, or when the schedule began."""
        if self.catch_up is CatchUp.ALL:
            return list(islice(takewhile(lambda time: time <= now, self._after(last)), MOST_MISSED))
        latest = self._latest(now)
        if latest is None or latest <= last or (self.catch_up is CatchUp.NONE and now - latest >= LATE):
            return []
        return [latest]

    def _latest(self, now: datetime) -> datetime | None:
        """The newest scheduled time that is not after a moment."""
        start = now.astimezone(UTC) - _LONGER_THAN_A_CHANGE
        before = next(CronSim(self.expression, start.astimezone(self.zone), reverse=True), None)
        latest = None if before is None else before.astimezone(UTC)
        for time in takewhile(lambda time: time <= now, self._after(start)):
            latest = time
        return latest

    def _after(self, moment: datetime) -> Iterator[datetime]:
        times = (time.astimezone(UTC) for time in CronSim(self.expression, moment.astimezone(self.zone)))
        # In an hour that occurs twice, the library may begin with the first one although the moment is in the second.
        return (time for time in times if time > moment)


def to_schedule(expression: str, time_zone: str = "UTC", catch_up: str = CatchUp.LATEST) -> Schedule:
    """A schedule from what a user wrote; ScheduleError says what is wrong with it."""
    try:
        CronSim(expression, datetime.now(UTC))
        if len(expression.split()) != _FIELDS:  # the library takes seconds too
            raise CronSimError("wrong number of fields")
    except CronSimError as error:
        raise ScheduleError(
            f"{expression!r} is not a cron expression: {str(error).lower()}",
            hint="write minute, hour, day of the month, month and day of the week: `0 3 * * *` is every day at 3:00",
        ) from None
    try:
        zone = find_zone(time_zone)
    except ValueError as error:
        raise ScheduleError(str(error), hint=ZONE_HINT) from None
    if catch_up not in list(CatchUp):
        known = ", ".join(CatchUp)
        raise ScheduleError(f"unknown rule {catch_up!r}{did_you_mean(catch_up, CatchUp)}", hint=f"choose from {known}")
    return Schedule(expression, zone, CatchUp(catch_up))
