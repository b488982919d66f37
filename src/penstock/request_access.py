"""What the command line may ask about build requests and job runs of any process, and of them."""

from __future__ import annotations

from pathlib import Path

from penstock.model.clock import SystemClock
from penstock.model.project import Project
from penstock.run.job_logs import LogLine
from penstock.run.requests import Request, Requests


def open_requests(project: Project) -> Requests:
    """The build requests of a project."""
    return Requests(project.event_log, SystemClock(), project.job_logs)


def open_requests_of_log(uri: str, folder: Path) -> Requests:
    """The build requests of an event log without a project, such as that of plain steps."""
    return Requests(uri, SystemClock(), folder / "jobs")


__all__ = ["LogLine", "Request", "Requests", "open_requests", "open_requests_of_log"]
