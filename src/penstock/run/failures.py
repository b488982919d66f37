"""How many partitions of a run may fail before nothing new begins: counted over all its items, each partition once."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.model.plan import Reason
from penstock.model.wording import counted


@dataclass(slots=True)
class FailureLimit:
    """The partitions of one run that failed, and how many may; a dataset without partitions counts as one."""

    most: int | None = None
    """None for no limit."""
    _failed: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, refs: Iterable[str]) -> None:
        """These failed; can be called from any thread."""
        with self._lock:
            self._failed.update(refs)

    @property
    def is_exceeded(self) -> bool:
        """Whether nothing new may begin."""
        return self.most is not None and len(self._failed) > self.most

    @property
    def reason(self) -> Reason:
        """Why nothing new begins."""
        failed = counted(len(self._failed), "partition")
        return Reason("too_many_failures", f"{failed} failed, more than --max-failures {self.most}")
