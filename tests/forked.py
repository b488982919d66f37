"""Commands in processes that are forked from one that has imported everything already.

Each is a process of its own, with its own working folder, environment and output, and dies by itself. Python and its imports cost
seconds for each command; a fork costs milliseconds. The parent runs nothing: delta-rs and gRPC do not survive a fork once used.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_TIMEOUT = 300
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.forked_imports"])


def run_forked(
    function: Callable[..., Any], arguments: Sequence[Any], *, cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Call a function of a module in a forked process, and give what it wrote and how it ended, as `subprocess.run` does."""
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        given = (function, tuple(arguments), cwd, dict(environment), output, errors)
        process = _context.Process(target=_call, args=given)
        process.start()
        process.join(_TIMEOUT)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired([function.__name__, *map(str, arguments)], _TIMEOUT)
        code = process.exitcode
        process.close()
        texts = [file.read_text() if file.exists() else "" for file in (output, errors)]
    return subprocess.CompletedProcess([function.__name__, *map(str, arguments)], code, *texts)


def _call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    cwd: Path,
    environment: dict[str, str],
    output: Path,
    errors: Path,
) -> None:
    for file, descriptor in ((output, 1), (errors, 2)):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout, sys.stderr = (open(descriptor, "w", closefd=False) for descriptor in (1, 2))  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    function(*arguments)
