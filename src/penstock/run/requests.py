"""What anyone may do about build requests and their job runs, from any process: cancel them, and wait until they end.

A cancel is an event: whoever runs the build sees it in the log and stops. Nothing here stops anything itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.errors import PenstockError, UsageError
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.eventlog.opening import open_event_log
from penstock.model.clock import Clock
from penstock.model.events import BuildCancel, TaskCancel
from penstock.model.recording import standalone_event
from penstock.model.status import BuildStatus, JobStatus
from penstock.run.job_logs import KEPT_LOGS, JobLogs, LogLine

_POLL_SECONDS = 0.2
_MOST_JOBS = 100_000
SHORTEST_ID = 4


@dataclass(frozen=True, slots=True)
class Request:
    """A build request or one of its job runs, and its status."""

    id: str
    build_request_id: str
    status: BuildStatus | JobStatus
    label: str = ""
    """The dataset of a job run."""

    @property
    def is_job(self) -> bool:
        return isinstance(self.status, JobStatus)

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"job run {self.id} ({self.label})" if self.is_job else f"build {self.id}"


@dataclass(frozen=True, slots=True)
class Requests:
    """The build requests of an event log."""

    event_log: str
    clock: Clock
    job_logs: Path

    def find(self, text: str) -> Request:
        """The build request or job run of this id, or the only one that starts so."""
        with open_event_log(self.event_log) as log:
            return find_request(log, text)

    def cancel(self, text: str, reason: str) -> Request:
        """Ask to cancel a build request or a job run; an error if it has ended."""
        with open_event_log(self.event_log) as log:
            found = find_request(log, text)
            if found.status.is_final:
                raise PenstockError(f"{found.title} has already ended: {found.status.name}")
            payload = TaskCancel(found.id, reason) if found.is_job else BuildCancel(reason)
            log.append([standalone_event(self.clock, found.build_request_id, payload)])
            return found

    def jobs_of(self, request: Request) -> list[Request]:
        """The job runs of a build request, the first one first; a job run itself."""
        if request.is_job:
            return [request]
        with open_event_log(self.event_log) as log:
            jobs = projections.list_jobs(log, build_request_id=request.id, limit=_MOST_JOBS)
        return [Request(job.job_run_id, request.id, job.status, job.job_label) for job in reversed(jobs)]

    def read_logs(self, request: Request) -> list[LogLine]:
        """What the job runs of a request logged on this machine, in order of time; each line with the name of its dataset."""
        logs, jobs = JobLogs(self.job_logs), self.jobs_of(request)
        found = [replace(line, label=job.label) for job in jobs for line in logs.read(job.id)]
        if not found:
            raise UsageError(
                f"there is no log of {request.title} in {self.job_logs}",
                hint=f"logs are on the machine that ran the job; the newest {KEPT_LOGS:,} are kept",
            )
        return sorted(found, key=lambda line: line.time)

    def wait(self, request: Request, seconds: float) -> Request:
        """Wait until it has ended, at most this long; gives its status then."""
        deadline = time.monotonic() + seconds
        with open_event_log(self.event_log) as log:
            while not (found := find_request(log, request.id)).status.is_final and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            return found


def find_request(log: EventLog, text: str) -> Request:
    """The build request or job run that a user means by an id, or by the beginning of one."""
    builds, jobs = find_ids(log, text)
    if len(builds) + len(jobs) > 1:
        raise UsageError(f"several builds and job runs start with {text}", hint="write more of the id")
    if builds and (build := projections.build_state(log, builds[0], strict=True)) is not None:
        return Request(builds[0], builds[0], build.status)
    if jobs and (job := projections.job_state(log, jobs[0], strict=True)) is not None:
        return Request(jobs[0], job.build_request_id, job.status, job.job_label)
    raise UsageError(
        f"the event log has no build request and no job run {text}",
        hint="see `penstock log builds` and `penstock log jobs`",
    )


def find_ids(log: EventLog, text: str) -> tuple[list[str], list[str]]:
    """The ids of build requests and of job runs that are this text, or else start with it."""
    if len(text) < SHORTEST_ID:
        raise UsageError(f"{text!r} is too short for an id", hint=f"write at least {SHORTEST_ID} characters")
    found = projections.find_builds(log, text), projections.find_jobs(log, text)
    exact = [[name for name in names if name == text] for names in found]
    return (exact[0], exact[1]) if any(exact) else found
