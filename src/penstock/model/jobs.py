"""How job runs are executed and when they are due, as the project declares it. Values only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from penstock.errors import Location
from penstock.model.names import DatasetName
from penstock.model.schedules import CatchUp, Schedule

_TIME = "%Y%m%dT%H%M%SZ"
PROJECT = "project"
MAINTENANCE = "maintenance"
"""What a schedule is for, beside tables."""


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """How often a job run is tried, and how long an attempt may take in seconds."""

    attempts: int = 1
    retry_delay: float = 1.0
    """Seconds before the second attempt; doubled for each further one."""
    timeout: float | None = None
    location: Location | None = field(default=None, compare=False)
    """Where penstock.yml declares it for one dataset."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The policies of a project: one for all datasets, and those of datasets that differ."""

    default: JobPolicy = field(default_factory=JobPolicy)
    tables: Mapping[DatasetName, JobPolicy] = field(default_factory=dict)

    def policy_of(self, name: DatasetName) -> JobPolicy:
        return self.tables.get(name, self.default)


@dataclass(frozen=True, slots=True)
class JobDeclaration:
    """What a definition says about its job runs; None where it says nothing."""

    schedule: str | None = None
    """A cron expression."""
    attempts: int | None = None
    retry_delay: float | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class ScheduleRules:
    """What holds for all schedules of a project."""

    time_zone: str = "UTC"
    catch_up: CatchUp = CatchUp.LATEST


Schedules = Mapping[str, Schedule]
"""What is due when: by `project`, `maintenance` or the name of a dataset."""


def find_unknown(schedules: Schedules, datasets: Collection[str]) -> list[str]:
    """The names that have a schedule, and are no dataset."""
    return [what for what in schedules if what not in {PROJECT, MAINTENANCE} and what not in datasets]


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be run (the project, maintenance or a dataset), and the scheduled time that it stands for."""

    what: str
    time: datetime

    @property
    def build_request_id(self) -> str:
        """The id of the build request that stands for it, the same for every scheduler."""
        return f"{start_of_id(self.what)}{self.time.astimezone(UTC).strftime(_TIME)}"

    def __str__(self) -> str:
        return f"{self.what} of {self.time.astimezone(UTC).isoformat(timespec='minutes')}"


def start_of_id(what: str) -> str:
    """How the ids of scheduled build requests begin."""
    return f"schedule-{what}-"


def scheduled_time(build_request_id: str, what: str) -> datetime | None:
    """The scheduled time that a build request stands for; None for any other build request."""
    try:
        return datetime.strptime(build_request_id.removeprefix(start_of_id(what)), _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
