"""A terminal of a process's own, as a user's shell gives it one."""

from __future__ import annotations

import os

OWN_TERMINAL = ("setsid", "--ctty")
"""Before a command: standard input is its terminal, where a test can press Ctrl-C."""


def read_all(descriptor: int) -> str:
    """Everything that is shown until the last process has closed the terminal."""
    content = b""
    while True:
        try:
            more = os.read(descriptor, 4096)
        except OSError:  # nobody has it open
            break
        if not more:
            break
        content += more
    os.close(descriptor)
    return content.decode()
