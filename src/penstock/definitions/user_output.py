"""What user code prints goes to the log on stderr, and to the log of its job run: stdout is for results, which may be JSON.

Where Penstock has no log on stderr, as in a notebook, `print` also prints where it always does.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO

_LOGGER = logging.getLogger("penstock")
_LONGEST = 10_000
"""A line without an end is cut here."""


class _Lines:
    """Collects what is printed, and logs it line by line."""

    def __init__(self, source: str, also: TextIO | None) -> None:
        self.also = also
        """Where the text is printed too."""
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
        if (listener := _listener.get()) is not None:
            listener(line)
        _LOGGER.info("%s: %s", self._source, line, extra={"facts": {"printed_by": self._source}})


_listener: ContextVar[Callable[[str], None] | None] = ContextVar("penstock_print_listener", default=None)
_printer: ContextVar[_Lines | None] = ContextVar("penstock_user_output", default=None)


class _Routed:
    """Stdout, except for what user code prints: other threads keep writing results meanwhile."""

    def __init__(self) -> None:
        self.stream: TextIO = sys.stdout
        self.users = 0

    def write(self, text: str) -> int:
        printer = _printer.get()
        if printer is None:
            return self.stream.write(text)
        printer.write(text)
        return printer.also.write(text) if printer.also is not None else len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def close(self) -> None:
        """Results are written here after user code is done with it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


_routed = _Routed()
"""One for the life of the process: Python crashes when sys.stdout is freed while another thread prints."""
_lock = threading.Lock()


@contextmanager
def user_output(source: str) -> Iterator[None]:
    """Log what the code in this block prints, with its source."""
    has_log = bool(_LOGGER.handlers)
    if not has_log and _listener.get() is None:
        yield
        return
    _route()
    lines = _Lines(source, None if has_log else _routed.stream)
    token = _printer.set(lines)
    try:
        yield
    finally:
        _printer.reset(token)
        lines.close()
        _unroute()


@contextmanager
def listen_to_prints(listener: Callable[[str], None]) -> Iterator[None]:
    """Give each line that user code prints in this block to a listener, too."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def _route() -> None:
    with _lock:
        current: Any = sys.stdout
        if _routed.users == 0 and current is not _routed:
            _routed.stream = current
        _routed.users += 1
        sys.stdout = _routed


def _unroute() -> None:
    """Also puts back what user code has replaced."""
    with _lock:
        _routed.users -= 1
        sys.stdout = _routed.stream if _routed.users == 0 else _routed
