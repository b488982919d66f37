"""What plain steps are told and tell: statuses, errors, names."""

from __future__ import annotations

import inspect
import re
from datetime import date
from enum import StrEnum
from functools import partial

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


def check_function(owner: str, func: object) -> None:
    """Raise when a function cannot be called as a step: an async one would only give a coroutine, which nobody awaits."""
    if not callable(func):
        raise PipelineError(f"{owner}: {func!r} is not a function")
    called = inspect.unwrap(func)
    while isinstance(called, partial):
        called = called.func
    if inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(type(called).__call__):
        raise PipelineError(
            f"{owner}: the function is asynchronous, and steps run in threads",
            hint="give a plain function that calls asyncio.run(...)",
        )


def to_key(given: object) -> str:
    """The key of a run as text; days and times in the form of ISO 8601."""
    if isinstance(given, date):  # a datetime is one
        return given.isoformat()
    if not isinstance(given, str):
        raise PipelineError(f"the key of a run must be a text or a date, not {given!r}", hint="write key='2024-01-31'")
    return given
