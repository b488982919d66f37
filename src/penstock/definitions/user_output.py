"""What user code prints goes to the log on stderr: stdout is for results, which may be JSON.

Only where Penstock has a log: in a notebook, `print` prints where it always does.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO

_LOGGER = logging.getLogger("penstock")
_LONGEST = 10_000
"""A line without an end is cut here."""


class _Lines:
    """Collects what is printed, and logs it line by line."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._rest = ""

    def write(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._log(line)
        if len(self._rest) > _LONGEST:
            self.close()

    def close(self) -> None:
        if self._rest:
            self._log(self._rest)
        self._rest = ""

    def _log(self, line: str) -> None:
        _LOGGER.info("%s: %s", self._source, line, extra={"facts": {"printed_by": self._source}})


_printer: ContextVar[_Lines | None] = ContextVar("penstock_user_output", default=None)


class _Routed:
    """Stdout, except for what user code prints: other threads keep writing results meanwhile."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.users = 0

    def write(self, text: str) -> int:
        printer = _printer.get()
        if printer is None:
            return self.stream.write(text)
        printer.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


_lock = threading.Lock()


@contextmanager
def user_output(source: str) -> Iterator[None]:
    """Log what the code in this block prints, with its source."""
    if not _LOGGER.handlers:
        yield
        return
    lines = _Lines(source)
    routed = _route()
    token = _printer.set(lines)
    try:
        yield
    finally:
        _printer.reset(token)
        lines.close()
        _unroute(routed)


def _route() -> _Routed:
    with _lock:
        current: Any = sys.stdout
        routed = current if isinstance(current, _Routed) else _Routed(current)
        routed.users += 1
        sys.stdout = routed
        return routed


def _unroute(routed: _Routed) -> None:
    with _lock:
        routed.users -= 1
        current: Any = sys.stdout
        if routed.users == 0 and current is routed:
            sys.stdout = routed.stream
