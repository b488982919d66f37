"""The fields `jobs` and `schedules` of penstock.yml: retries, timeouts, and what `penstock scheduler` runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.config.shape import Field, MapOf, Record, Text, Whole
from penstock.config.yaml_positions import Node
from penstock.errors import ConfigError, Location
from penstock.model.jobs import MAINTENANCE, PROJECT, JobPolicy, JobSettings, ScheduleRules, Schedules
from penstock.model.names import DatasetName, to_dataset_name
from penstock.model.quantities import to_seconds
from penstock.model.schedules import CatchUp, Schedule, ScheduleError, to_schedule


def _time_problem(text: str) -> str | None:
    try:
        seconds = to_seconds(text)
    except ValueError:
        seconds = 0
    return None if seconds else "must be a length of time such as `30 seconds` or `2 hours`"


def _cron_problem(text: str) -> str | None:
    return _problem_of(lambda: to_schedule(text))


def _zone_problem(text: str) -> str | None:
    return _problem_of(lambda: to_schedule("* * * * *", text))


def _problem_of(make: Any) -> str | None:
    try:
        make()
    except ScheduleError as error:
        return f"{error.message}; {error.hint}"
    return None


_POLICY = {
    "attempts": Field(Whole(most=1000), "How often a job run is tried if its error can go away by itself.", default=1),
    "retry_delay": Field(
        Text(_time_problem, examples=("10 seconds",)),
        "How long to wait before the second attempt; doubled for each further one, up to 5 minutes.",
        default="1 second",
    ),
    "timeout": Field(Text(_time_problem, examples=("2 hours",)), "How long an attempt may take; no limit by default."),
}
JOBS = Record(
    {
        **_POLICY,
        "tables": Field(
            MapOf(Record({name: Field(each.shape, each.description) for name, each in _POLICY.items()}), "tables"),
            "Datasets that differ.",
        ),
    }
)
_CRON = Text(_cron_problem, examples=("0 3 * * *",))
SCHEDULES = Record(
    {
        "time_zone": Field(Text(_zone_problem, examples=("Europe/Berlin",)), "Time zone of all times.", default="UTC"),
        "catch_up": Field(
            Text(choices=tuple(CatchUp)),
            "What happens to times that passed while no scheduler ran: one run for all, one for each, or none.",
            default=CatchUp.LATEST.value,
        ),
        PROJECT: Field(_CRON, "When `penstock run` is due, as a cron expression."),
        MAINTENANCE: Field(_CRON, "When `penstock maintain` is due."),
        "tables": Field(MapOf(_CRON, "tables"), "When single datasets and their inputs are brought up to date."),
    }
)


def read_jobs(root: Node, values: Mapping[str, Any], database: str) -> JobSettings:
    """The policies of a project file, whose `values` have already been checked for their shape."""
    default = _to_policy(JobPolicy(), values)
    tables = _by_name(root, "jobs", values.get("tables") or {}, database)
    return JobSettings(
        default,
        {name: replace(_to_policy(default, given or {}), location=place) for name, (given, place) in tables.items()},
    )


def read_schedules(root: Node, values: Mapping[str, Any], database: str) -> Schedules:
    """The schedules of a project file, whose `values` have already been checked for their shape."""

    rules = read_schedule_rules(values)

    def schedule(expression: str) -> Schedule:
        return to_schedule(expression, rules.time_zone, rules.catch_up)

    found = {what: schedule(values[what]) for what in (PROJECT, MAINTENANCE) if what in values}
    tables = _by_name(root, "schedules", values.get("tables") or {}, database)
    return found | {str(name): replace(schedule(text), location=place) for name, (text, place) in tables.items()}


def read_schedule_rules(values: Mapping[str, Any]) -> ScheduleRules:
    """What holds for all schedules."""
    return ScheduleRules(values.get("time_zone", "UTC"), CatchUp(values.get("catch_up", CatchUp.LATEST)))


def _to_policy(base: JobPolicy, given: Mapping[str, Any]) -> JobPolicy:
    changes: dict[str, Any] = {"attempts": given["attempts"]} if "attempts" in given else {}
    changes |= {name: float(to_seconds(given[name])) for name in ("retry_delay", "timeout") if name in given}
    return replace(base, **changes)


def _by_name(
    root: Node, field: str, tables: Mapping[str, Any], database: str
) -> dict[DatasetName, tuple[Any, Location]]:
    """What is given for each dataset, and where."""
    found: dict[DatasetName, tuple[Any, Location]] = {}
    for table, given in tables.items():
        node = root.mapping[field].mapping["tables"].mapping[table]
        location = node.key_location or node.location
        try:
            name = to_dataset_name(table, database)
        except ValueError as error:
            raise ConfigError(f"`{field}.tables.{table}`: {error}", location=location) from None
        if name in found:
            raise ConfigError(f"`{field}.tables.{table}`: {name} is given twice", location=location)
        found[name] = given, location
    return found
