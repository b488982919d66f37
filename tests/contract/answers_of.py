"""Every query of the log as JSON text, to compare one backend with another byte for byte (positions apart)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.eventlog import answers, projections
from penstock.eventlog.codec import to_text
from penstock.eventlog.contract import EventLog, Filter
from penstock.model.events import Event, EventType, Job, Partition, PartitionInvalidation
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus


def all_answers(log: EventLog, events: Iterable[Event]) -> dict[str, str]:
    """Ask everything about a history: about each build, partition and job run in it, and the lists with their filters."""
    log.head(strict=True)
    events = list(events)
    found: dict[str, Any] = {}
    for build in sorted({event.build_request_id for event in events}):
        found[f"build {build}"] = _one(answers.build_json, projections.build_state(log, build))
        found[f"events of build {build}"] = list(map(answers.entry_json, projections.events_of_build(log, build)))
        found[f"jobs of build {build}"] = list(
            map(answers.job_json, projections.list_jobs(log, build_request_id=build))
        )
    for ref in sorted(_partitions(events)):
        found[f"partition {ref}"] = _one(answers.partition_json, projections.partition_state(log, ref))
        found[f"events of {ref}"] = list(map(answers.entry_json, projections.events_of_partition(log, ref)))
        found[f"active {ref}"] = list(map(answers.active_json, projections.active_builds(log, ref)))
        found[f"made {ref}"] = projections.build_that_made(log, ref)
    for run in sorted({event.payload.job_run_id for event in events if isinstance(event.payload, Job)}):
        found[f"job {run}"] = _one(answers.job_json, projections.job_state(log, run))
        found[f"events of job {run}"] = list(map(answers.entry_json, projections.events_of_job_run(log, run)))
    found.update(_lists(log))
    found.update(_filters(log, events))
    return {name: to_text(value) for name, value in found.items()}


def _lists(log: EventLog) -> dict[str, Any]:
    found: dict[str, Any] = {"activity": answers.activity_json(projections.activity(log))}
    for limit, offset in ((10, 0), (7, 3), (1000, 0), (5, 10_000)):
        page = projections.list_builds(log, limit=limit, offset=offset)
        found[f"builds {limit} {offset}"] = answers.page_json(page)
    for build_status in BuildStatus:
        page = projections.list_builds(log, statuses=(build_status,))
        found[f"builds {build_status.name}"] = answers.page_json(page)
    for partition_status in PartitionStatus:
        partitions = projections.list_partitions(log, statuses=(partition_status,))
        found[f"partitions {partition_status.name}"] = list(map(answers.partition_json, partitions))
    for job_status in JobStatus:
        jobs = projections.list_jobs(log, statuses=(job_status, JobStatus.FAILED))
        found[f"jobs {job_status.name}"] = list(map(answers.job_json, jobs))
    found["partitions"] = list(map(answers.partition_json, projections.list_partitions(log, limit=1000)))
    return found


def _filters(log: EventLog, events: list[Event]) -> dict[str, Any]:
    times = sorted(event.timestamp for event in events) or [0]
    low, high = times[len(times) // 3], times[2 * len(times) // 3]
    chosen = {
        "all": Filter(),
        "time": Filter(since=low, until=high),
        "one instant": Filter(since=low, until=low + 1),
        "jobs in time": Filter(event_types=(EventType.JOB, EventType.TASK_CANCEL), since=low),
        "glob": Filter(partitions=("db.t1/*", "db.t?/day=1")),
        "label": Filter(job_labels=("db.t2", "db.t3"), until=high),
    }
    found: dict[str, Any] = {
        f"filter {name}": [answers.entry_json(entry) for entry in log.read(filter=value)]
        for name, value in chosen.items()
    }
    found["limit"] = [answers.entry_json(entry) for entry in log.read(filter=chosen["time"], limit=17)]
    return found


def _one(to_json: Any, value: Any) -> Any:
    return None if value is None else to_json(value)


def _partitions(events: list[Event]) -> set[str]:
    payloads = (event.payload for event in events)
    return {p.partition_ref for p in payloads if isinstance(p, Partition | PartitionInvalidation)}
