"""What definitions declare about their job runs: schedules, retries, timeouts. penstock.yml overrides it, table by table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from penstock.errors import DefinitionError, Location
from penstock.model.jobs import JobDeclaration, JobPolicy, JobSettings
from penstock.model.project import Project
from penstock.model.quantities import to_seconds
from penstock.model.schedules import ScheduleError, to_schedule
from penstock.model.spec import DatasetSpec

_MOST_ATTEMPTS = 1000


def to_job(given: Mapping[str, Any], location: Location) -> JobDeclaration | None:
    """What a definition says about its job runs; None when it says nothing, DefinitionError when that cannot be."""
    if not given:
        return None
    schedule = given.get("schedule")
    if schedule is not None:
        try:
            to_schedule(schedule if isinstance(schedule, str) else repr(schedule))
        except ScheduleError as error:
            raise DefinitionError(f"schedule: {error.message}", hint=error.hint, location=location) from None
    seconds = {name: _to_seconds(name, given.get(name), location) for name in ("retry_delay", "timeout")}
    return JobDeclaration(schedule, _to_attempts(given.get("attempts"), location), **seconds)


def with_jobs(project: Project, specs: Iterable[DatasetSpec]) -> Project:
    """The project with what definitions declare; what penstock.yml says about a table is in its place."""
    found = {spec.name: spec.job for spec in specs if spec.job is not None}
    rules = project.schedule_rules
    schedules = {
        str(name): to_schedule(job.schedule, rules.time_zone, rules.catch_up)
        for name, job in found.items()
        if job.schedule is not None
    }
    policies = {name: _to_policy(project.jobs.default, job) for name, job in found.items()}
    jobs = JobSettings(project.jobs.default, policies | dict(project.jobs.tables))
    return replace(project, schedules=schedules | dict(project.schedules), jobs=jobs)


def _to_policy(base: JobPolicy, job: JobDeclaration) -> JobPolicy:
    return JobPolicy(
        base.attempts if job.attempts is None else job.attempts,
        base.retry_delay if job.retry_delay is None else job.retry_delay,
        base.timeout if job.timeout is None else job.timeout,
    )


def _to_attempts(value: object, location: Location) -> int | None:
    if value is None:
        return None
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if type(number) is not int or not 1 <= number <= _MOST_ATTEMPTS:
        raise DefinitionError(f"attempts must be a number from 1 to {_MOST_ATTEMPTS}, not {value!r}", location=location)
    return number


def _to_seconds(name: str, value: object, location: Location) -> float | None:
    if value is None:
        return None
    try:
        seconds = to_seconds(value) if isinstance(value, str) else 0
    except ValueError:
        seconds = 0
    if not seconds:
        raise DefinitionError(
            f"{name} must be a length of time such as '30 seconds' or '2 hours', not {value!r}", location=location
        )
    return float(seconds)
