"""Where results go: stdout, and nothing else goes there, whatever user code does with descriptor 1, programs or sys.stdout."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TextIO


@dataclass(slots=True)
class _Stdout:
    is_ours: bool = False
    """Whether this process is the command line, and not a program or a test that calls it."""
    apart: TextIO | None = None
    """The stream of results, once they are kept apart."""


_stdout = _Stdout()


def own_stdout() -> None:
    """Say that this process is the command line."""
    _stdout.is_ours = True


def results() -> TextIO:
    """The stream that results are written to."""
    return _stdout.apart if _stdout.apart is not None else sys.stdout


def keep_results_apart() -> None:
    """Until the process ends, let only results reach stdout; whatever else is written there goes to stderr."""
    stream = sys.__stdout__
    is_usual = stream is not None and sys.stdout is stream and not stream.closed and stream.fileno() == 1
    if stream is None or not is_usual or not _stdout.is_ours or _stdout.apart is not None:
        return
    stream.flush()
    # Programs that user code starts do not inherit a duplicate.
    _stdout.apart = os.fdopen(os.dup(1), "w", encoding=stream.encoding, errors=stream.errors)
    os.dup2(2, 1)
    stream.reconfigure(line_buffering=True)  # so that prints and log lines come in their order
