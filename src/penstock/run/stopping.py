"""How a pipeline run tells its caller that an interrupt came, and the results that it has by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import StoppedError, to_stopped
from penstock.model.plan import Plan
from penstock.model.results import RunResult
from penstock.run.listeners import RunListener, watchers_of
from penstock.run.scheduler import OnStop, cancelled

RECORD_SECONDS = 1.5
"""How long a run that was stopped waits for the event log."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Whom a pipeline run tells what happens."""

    listeners: tuple[RunListener, ...] = ()
    on_plan: Callable[[Plan], None] = lambda _: None
    on_stop: OnStop | None = None

    def begin(self, build_request_id: str) -> None:
        """Tell which build request this is."""
        for watcher in watchers_of(self.listeners):
            watcher.begins(build_request_id)

    def tell(self, error: KeyboardInterrupt) -> StoppedError:
        """Tell once that an interrupt came."""
        stopped = to_stopped(error)
        if self.on_stop is not None and not stopped.is_told:
            stopped.is_told = True
            self.on_stop(stopped)
        return stopped


def to_stopped_result(build_request_id: str, plan: Plan | None, stopped: StoppedError, seconds: float) -> RunResult:
    """The results of a run that was stopped; when the scheduler gave none, no item was started."""
    items = stopped.items
    if items is None:
        items = tuple(cancelled(item) for item in plan.items) if plan is not None else ()
    return RunResult(build_request_id, items, seconds, str(stopped))
