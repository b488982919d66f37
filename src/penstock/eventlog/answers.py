"""Results of `projections` as JSON values, the same on every backend."""

from __future__ import annotations

from typing import Any

from penstock.eventlog.codec import to_json
from penstock.eventlog.contract import Entry
from penstock.eventlog.states import ActiveBuild, Activity, BuildPage, BuildState, JobState, PartitionState
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

Fields = dict[str, Any]


def entry_json(entry: Entry, *, position: bool = False) -> Fields:
    """An event; with its position only on request, because that differs between logs."""
    return {"position": entry.position, **to_json(entry.event)} if position else to_json(entry.event)


def build_json(build: BuildState) -> Fields:
    """The state of a build."""
    return {
        "build_request_id": build.build_request_id,
        **_status(build.status),
        "requested_partitions": list(build.requested_partitions),
        "message": build.message,
        "created_at": build.created_at,
        "updated_at": build.updated_at,
        "cancel_reason": build.cancel_reason,
    }


def page_json(page: BuildPage) -> Fields:
    """A page of builds."""
    return {"builds": [build_json(build) for build in page.builds], "total": page.total}


def partition_json(partition: PartitionState) -> Fields:
    """The state of a partition."""
    return {
        "partition_ref": partition.partition_ref,
        **_status(partition.status),
        "available": partition.is_available,
        "build_request_id": partition.build_request_id,
        "job_run_id": partition.job_run_id,
        "message": partition.message,
        "updated_at": partition.updated_at,
        "available_build_request_id": partition.available_build_request_id,
        "available_at": partition.available_at,
        "invalidated_reason": partition.invalidated_reason,
    }


def job_json(job: JobState) -> Fields:
    """The state of a job run."""
    return {
        "job_run_id": job.job_run_id,
        "build_request_id": job.build_request_id,
        "job_label": job.job_label,
        "target_partitions": list(job.target_partitions),
        **_status(job.status),
        "message": job.message,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
        "cancel_reason": job.cancel_reason,
    }


def active_json(active: ActiveBuild) -> Fields:
    """A build that is building a partition."""
    return {
        "build_request_id": active.build_request_id,
        "build_status": active.build_status.name,
        "partition_status": active.partition_status.name,
        "job_run_id": active.job_run_id,
        "claimed": active.claimed,
    }


def activity_json(activity: Activity) -> Fields:
    """A summary of the log."""
    return {
        "events": activity.events,
        "active_builds": activity.active_builds,
        "builds": activity.builds,
        "partitions": activity.partitions,
        "invalidated_partitions": activity.invalidated_partitions,
        "jobs": activity.jobs,
        "recent_builds": [build_json(build) for build in activity.recent_builds],
        "recent_partitions": [partition_json(partition) for partition in activity.recent_partitions],
    }


def _status(status: BuildStatus | PartitionStatus | JobStatus) -> Fields:
    return {"status_code": status.value, "status_name": status.name}
