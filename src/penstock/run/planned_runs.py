"""A pipeline run before it is executed: how it is planned and recorded, and how it shares work with other builds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.model.plan import Item, Plan
from penstock.run.claiming import Claiming, Replan
from penstock.run.claims.asking import Claims
from penstock.run.listeners import RunListener, watchers_of
from penstock.run.recording import RunRecorder


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One pipeline run."""

    recorder: RunRecorder
    plan: Callable[[], Plan]
    replan: Replan
    close_dead: Callable[[], object]
    wait_seconds: float

    def claim(self, listeners: Iterable[RunListener] = ()) -> Claiming:
        """From now on, items are claimed before they start; listeners that want to know are told about waits."""
        self.recorder.is_claiming = True
        claims = Claims(self.recorder.log, self.recorder.events)
        self.recorder.is_taken_over = claims.is_taken_over
        claiming = Claiming(claims, self.recorder, self.replan, self.close_dead, self.wait_seconds)
        watchers = watchers_of(listeners)

        def tell(item: Item, build_request_id: str | None) -> None:
            for watcher in watchers:
                watcher.waits(item, build_request_id)

        if watchers:
            claiming.on_wait = tell
        return claiming
