"""Ctrl-C and SIGTERM while a session starts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signals_later() -> Iterator[None]:
    """Handle signals after the block: a JVM whose launch was interrupted does not notice that this process ends, and stays."""
    if not _is_main():
        yield
        return
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _: received.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        for first in received[:1]:
            handler = before[signal.Signals(first)]
            if callable(handler):
                handler(first, None)  # not by a signal of our own, which would look like a second one
            else:
                signal.raise_signal(first)


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Keep the handler of Ctrl-C, which Spark replaces by one that waits for the JVM before it raises."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and _is_main():
            signal.signal(signal.SIGINT, before)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
