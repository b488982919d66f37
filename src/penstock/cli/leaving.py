"""The end of the process: with its exit code once the command is done, whatever threads user code has started."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

from penstock.cli.results import results


def leave(code: int) -> NoReturn:
    """End the process. Python would wait for every thread that is no daemon, such as one that a definition starts when loaded.

    What is to be done at the end is done; the thread is not asked.
    """
    if not _would_wait():
        sys.exit(code)
    for stream in (results(), sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or nobody reads it
            stream.flush()
    atexit._run_exitfuncs()  # noqa: SLF001 - os._exit leaves them out
    os._exit(code)


def _would_wait() -> bool:
    current = threading.current_thread()
    return any(not each.daemon and each is not current for each in threading.enumerate())
