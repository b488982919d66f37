"""One thread per process that renews every lease the process holds; it dies with the process, and so do the leases."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Protocol

logger = logging.getLogger(__name__)


class Renewable(Protocol):
    """Something that ends unless it is renewed."""

    def renew(self) -> None: ...


class Renewals:
    """What is renewed, and how often; the thread starts when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._due: dict[int, tuple[Renewable, float, float]] = {}
        self._process = 0

    def add(self, lease: Renewable, every: float) -> None:
        """Renew a lease every so many seconds, until it is removed."""
        with self._lock:
            if self._process != os.getpid():  # threads do not survive a fork
                self._process = os.getpid()
                self._due.clear()
                threading.Thread(target=self._run, name="penstock-leases", daemon=True).start()
            self._due[id(lease)] = (lease, every, time.monotonic() + every)
            self._lock.notify()

    def remove(self, lease: Renewable) -> None:
        """Renew a lease no more."""
        with self._lock:
            self._due.pop(id(lease), None)

    def _run(self) -> None:
        while True:
            with self._lock:
                soonest = min((at for _, _, at in self._due.values()), default=None)
                if soonest is None or soonest > time.monotonic():
                    self._lock.wait(soonest - time.monotonic() if soonest is not None else None)
                    continue
                due = [key for key, (_, _, at) in self._due.items() if at <= time.monotonic()]
                leases = [self._due[key][0] for key in due]
                for key in due:
                    lease, every, _ = self._due[key]
                    self._due[key] = (lease, every, time.monotonic() + every)
                for lease in leases:  # under the lock: a lease that was released must not come back
                    try:
                        lease.renew()
                    except Exception as error:  # noqa: BLE001 - tried again; the holder checks its lease before it removes anything
                        logger.warning("a lease was not renewed: %s", type(error).__name__)


RENEWALS = Renewals()
