"""Calls a function again, with more room, if it recurses deeper than Python's limit: long SQL is nested deeply for its parser.

The stack of the main thread has a fixed size. So the second call is made in a thread with a large one, and only while that
runs the limit is higher. The stack has several times the room that so many calls need, so it cannot overflow.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

_MOST_CALLS = 60_000
_STACK = 256 << 20
_LOCK = threading.Lock()
Result = TypeVar("Result")


def with_deep_stack(call: Callable[[], Result]) -> Result:
    """What the function returns; raises RecursionError if it is too deep even for the large stack."""
    try:
        return call()
    except RecursionError as error:
        if threading.current_thread().name == __name__:
            raise
        found: list[Result] = []
        failed: list[BaseException] = []
        if not _run_in_thread(lambda: _collect(call, found, failed)):
            raise
        if failed:
            raise failed[0] from error
        return found[0]


def _collect(call: Callable[[], Result], found: list[Result], failed: list[BaseException]) -> None:
    try:
        found.append(call())
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
        failed.append(error)


def _run_in_thread(target: Callable[[], None]) -> bool:
    """Run with the large stack; False where the system gives no such thread."""
    with _LOCK:
        size, limit = threading.stack_size(), sys.getrecursionlimit()
        thread = threading.Thread(target=target, name=__name__, daemon=True)
        try:
            threading.stack_size(_STACK)
            sys.setrecursionlimit(max(limit, _MOST_CALLS))
            thread.start()
            thread.join()
        except (RuntimeError, ValueError):
            return False
        finally:
            sys.setrecursionlimit(limit)
            threading.stack_size(size)
    return True
