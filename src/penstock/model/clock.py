"""Time and ids come in from outside, so that every decision can be tested with a clock that the test controls."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Returns the time in nanoseconds since 1970 (UTC)."""

    def now_ns(self) -> int:
        """The time now."""
        ...


class SystemClock:
    """The clock of this machine."""

    __slots__ = ()

    def now_ns(self) -> int:
        """The time now."""
        return time.time_ns()


class ManualClock:
    """A clock that moves only when `advance` is called; for tests and replays."""

    __slots__ = ("_now",)

    def __init__(self, now_ns: int = 1_700_000_000_000_000_000) -> None:
        self._now = now_ns

    def now_ns(self) -> int:
        """The time now."""
        return self._now

    def advance(self, nanoseconds: int) -> None:
        """Move the clock forward."""
        self._now += nanoseconds


def uuid7(clock: Clock, random_bytes: Callable[[int], bytes] = os.urandom) -> str:
    """Make an id that sorts by time: RFC 9562 version 7, with the part below a millisecond in the 12 bits after it.

    Pass `random_bytes` to make ids repeatable in a test.
    """
    milliseconds, rest = divmod(clock.now_ns(), 1_000_000)
    fraction = (rest << 12) // 1_000_000
    tail = int.from_bytes(random_bytes(8)) & ((1 << 62) - 1)
    number = (milliseconds & ((1 << 48) - 1)) << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | tail
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
