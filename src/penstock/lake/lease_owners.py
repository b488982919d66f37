"""Who holds a lease: a process of a machine, known again by when it started, because process ids are used again."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_STARTED = 19
"""The field of /proc/PID/stat with the start time, counted from the one after the command's name."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that holds a lease; the id is new for each lease."""

    host: str
    machine: str
    """Tells apart machines, boots and containers that have the same name."""
    process: int
    started: str | None
    id: str

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"


def this_process(id_: str) -> Owner:
    """This process as an owner."""
    return Owner(socket.gethostname(), _machine(), os.getpid(), _find_start(os.getpid()), id_)


def is_ended(owner: Owner) -> bool:
    """Whether the owner's process has certainly ended; of another machine that is unknown here."""
    if (owner.host, owner.machine) != (socket.gethostname(), _machine()):
        return False
    try:
        os.kill(owner.process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it lives, and belongs to somebody else
        pass
    return owner.started != _find_start(owner.process)


@cache
def _machine() -> str:
    """The boot and the process namespace: a process id means something only within both."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _find_start(process: int) -> str | None:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return fields[_STARTED] if fields[0] != "Z" else "ended"
    except (OSError, IndexError):
        return None
