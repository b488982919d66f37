"""What plain steps are told and tell: statuses, errors, names."""

from __future__ import annotations

import re
from enum import StrEnum

from penstock.errors import UsageError
from penstock.model.results import Outcome
from penstock.run.dispatch import Limits, RetryRule

_NAME = re.compile(r"\w[\w .:-]{0,119}\Z")


class StepStatus(StrEnum):
    """How a step stands."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class PipelineError(UsageError):
    """The steps of a pipeline, or the options of a backfill, do not fit together: a name twice, an unknown name, a cycle."""

    code = "pipeline"


_STATUSES = {
    Outcome.ERROR: StepStatus.FAILED,
    Outcome.SKIP: StepStatus.SKIPPED,
    Outcome.CANCELLED: StepStatus.CANCELLED,
}


def to_step_status(outcome: Outcome) -> StepStatus:
    """How a step ended; one that was recorded as done before has succeeded."""
    return _STATUSES.get(outcome, StepStatus.SUCCESS)


def check_name(what: str, name: str) -> None:
    """Reject a name that could not be told from the rest of a reference in the event log."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise PipelineError(
            f"{name!r} is not a name of a {what}",
            hint="use up to 120 letters, digits, spaces and . : - _, beginning with a letter or digit",
        )


def check_parallel(parallel: int) -> None:
    """Reject a number of threads that cannot be."""
    if parallel < 1:
        raise PipelineError(f"parallel must be at least 1, not {parallel}")


def to_limits(what: str, retries: int, retry_delay: float, timeout: float | None) -> Limits:
    """How often a function is tried, and how long it may take."""
    if retries < 0 or retry_delay < 0 or (timeout is not None and timeout <= 0):
        raise PipelineError(f"{what}: retries and retry_delay cannot be negative, and timeout must be more than 0")
    return Limits(RetryRule(retries + 1, retry_delay), timeout)
