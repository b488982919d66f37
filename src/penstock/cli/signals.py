"""Ctrl-C and SIGTERM: the first stops the command in order, a second one ends it at once, and so does a stop that takes too long.

The first raises StoppedError in the main thread. A watching thread does the rest: it hears of every signal from Python's
own handler at once, also while the main thread waits inside a library.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from penstock.errors import StoppedError

STOPS = (signal.SIGINT, signal.SIGTERM)
SECONDS = 9.0
"""From the first signal to the end of the process, at most."""
ROUND_SECONDS = 3.5
"""How long `--continuous` may go on with what it is doing when it is asked to stop."""
_SHOW_CURSOR = b"\x1b[?25h"

Handler = Callable[[int, FrameType | None], None]

_watches: list[_Watch] = []
"""That of the command, while it runs."""


@contextmanager
def stop_signals() -> Iterator[None]:
    """Stop the block on SIGINT and SIGTERM, also where a shell started the command in the background with SIGINT ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = _Watch()
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:  # after that the watch ends the process
            raise StoppedError(number)

    with _handling(dict.fromkeys(STOPS, stop)), watch.watching():
        yield


@contextmanager
def stop_between_rounds(stop: threading.Event) -> Iterator[None]:
    """Set `stop` on SIGINT and SIGTERM; raise StoppedError if the block has not ended some seconds later."""

    def ask(number: int, _: FrameType | None) -> None:
        def insist(_: int, __: FrameType | None) -> None:
            raise StoppedError(number)

        if not stop.is_set():
            stop.set()
            signal.signal(signal.SIGALRM, insist)
            signal.setitimer(signal.ITIMER_REAL, ROUND_SECONDS)

    with _handling({**dict.fromkeys(STOPS, ask), signal.SIGALRM: signal.SIG_IGN}):
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _forget_in_child() -> None:
    """In a process that user code forks: signals are its own, and its pipe would tell ours of them."""
    if _watches:
        _watches.clear()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=_forget_in_child)


@contextmanager
def _handling(handlers: dict[signal.Signals, Handler | signal.Handlers]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


class _Watch:
    """A thread that ends the process on a second signal, or when the first one was not obeyed in time."""

    def __init__(self) -> None:
        self._is_over = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        heard, said = os.pipe()
        os.set_blocking(said, False)
        before = signal.set_wakeup_fd(said, warn_on_full_buffer=False)
        _watches.append(self)
        threading.Thread(target=self._watch, args=(heard,), name="penstock-signals", daemon=True).start()
        try:
            yield
        finally:
            self._is_over = True
            if self in _watches:  # not in a forked process
                _watches.remove(self)
            signal.set_wakeup_fd(before)
            os.close(said)  # ends the thread, unless a signal came

    def _watch(self, heard: int) -> None:
        number = _read_signal(heard)
        if number is None:
            os.close(heard)
            return
        deadline = time.monotonic() + SECONDS
        while (left := deadline - time.monotonic()) > 0:
            if select.select([heard], [], [], left)[0]:
                again = _read_signal(heard)
                if again is not None:
                    _end(again)
                time.sleep(max(0.0, deadline - time.monotonic()))
        if not self._is_over or _is_python_ending():
            _end(number)


def _read_signal(heard: int) -> int | None:
    """The next of the signals that stop the command; None when nobody listens to signals any more."""
    while content := os.read(heard, 1):
        if content[0] in STOPS:
            return content[0]
    return None


def _is_python_ending() -> bool:
    """Whether the command is over and Python waits for something, such as a thread of user code."""
    return getattr(threading, "_SHUTTING_DOWN", False) or not threading.main_thread().is_alive()


def _end(number: int) -> None:
    with suppress(Exception):
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)  # a progress display hides it
    os._exit(128 + number)


def format_stop(text: str, log_format: str) -> str:
    """The line that says what stopped the command, as a log line."""
    return json.dumps({"level": "warning", "message": text}) if log_format == "json" else text


def show_stop(text: str, log_format: str) -> None:
    """Say on stderr what stopped the command."""
    sys.stderr.write(format_stop(text, log_format) + "\n")
