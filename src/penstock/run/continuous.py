"""`penstock run --continuous`: a poll that wakes the planner. It decides nothing itself."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.errors import ConcurrentRunError
from penstock.model.changes import ChangeMetrics
from penstock.model.names import DatasetName
from penstock.model.plan import Plan
from penstock.model.results import RunResult

OnBatch = Callable[[DatasetName, str, int, ChangeMetrics], None]


@dataclass(slots=True)
class Continuous:
    """Polls for work, and runs what it finds."""

    plan: Callable[[], Plan]
    run: Callable[[], RunResult]
    on_batch: OnBatch
    """Called for each batch of change events: table, flow, its number since the start, what it did."""
    _numbers: Counter[tuple[DatasetName, str]] = field(default_factory=Counter)

    def follow(self, stop: threading.Event, seconds: float) -> None:
        """Poll until `stop` is set, or until one table has a problem. It stops between two pipeline runs."""
        while not stop.is_set():
            plan = self.plan()
            for item in plan.items:
                if item.problem is not None:
                    raise item.problem.to_error()
            if plan.has_work:
                try:
                    self._report(self.run())
                except ConcurrentRunError:
                    if not stop.is_set():
                        raise
            stop.wait(seconds)

    def _report(self, result: RunResult) -> None:
        for item in result.items:
            if item.problem is not None:
                raise item.problem.to_error()
            for batch in item.load.batches if item.load else ():
                key = item.dataset, batch.flow
                self.on_batch(item.dataset, batch.flow, self._numbers[key], batch.metrics)
                self._numbers[key] += 1
