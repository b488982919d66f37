"""Retries with growing, random pauses until a deadline."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_before_delay, wait_random_exponential

from penstock.eventlog.deadlines import remaining

logger = logging.getLogger(__name__)

_RACE_SECONDS = 0.05

Result = TypeVar("Result")


class LostRaceError(Exception):
    """Another writer committed the version that this one was about to commit."""


def keep_trying(
    work: Callable[[], Result],
    is_transient: Callable[[BaseException], bool],
    deadline_seconds: float,
    first_pause_seconds: float = 0.05,
) -> Result:
    """Run the work until it succeeds, fails permanently, or no time is left for a pause and another attempt.

    Raises the last error unchanged. A deadline that the caller is within counts too.
    """
    retrying = Retrying(
        stop=stop_before_delay(remaining(deadline_seconds)),
        wait=_Pause(first_pause_seconds),
        retry=retry_if_exception(is_transient),
        before_sleep=_note,
        reraise=True,
    )
    return retrying(work)


class _Pause(wait_random_exponential):
    """Growing pauses after trouble. After a lost race they shrink, so that who lost most often comes first."""

    def __init__(self, first_pause_seconds: float) -> None:
        super().__init__(multiplier=first_pause_seconds, max=2.0)

    def __call__(self, retry_state: RetryCallState) -> float:
        outcome = retry_state.outcome
        if outcome is not None and isinstance(outcome.exception(), LostRaceError):
            return random.uniform(0, _RACE_SECONDS / retry_state.attempt_number)  # noqa: S311
        return super().__call__(retry_state)


def _note(state: RetryCallState) -> None:
    logger.debug("retrying after attempt %d of an event-log operation", state.attempt_number)
