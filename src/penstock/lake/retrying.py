"""Starting a load again when another writer was first."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from penstock.errors import ConcurrentRunError

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPTS = 20
_LONGEST_WAIT = 20
"""Seconds. Two writers can fence each other off; the wait must grow beyond the time of a load, on a busy machine too."""


def retry_when_overtaken(load: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call the load; once more, after a while, for each time that another writer was first. It must start from the beginning."""
    retrying = Retrying(
        retry=retry_if_exception_type(ConcurrentRunError),
        wait=wait_random_exponential(multiplier=0.2, max=_LONGEST_WAIT),
        stop=stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )
    return retrying(load, *arguments, **named)
