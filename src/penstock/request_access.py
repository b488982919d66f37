"""What the command line may ask about build requests and job runs of any process, and of them."""

from __future__ import annotations

from penstock.model.clock import SystemClock
from penstock.model.project import Project
from penstock.run.job_logs import LogLine
from penstock.run.requests import Request, Requests


def open_requests(project: Project) -> Requests:
    """The build requests of a project."""
    return Requests(project.event_log, SystemClock(), project.job_logs)


__all__ = ["LogLine", "Request", "Requests", "open_requests"]
