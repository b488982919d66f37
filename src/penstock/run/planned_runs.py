"""A pipeline run before it is executed: how it is planned and recorded, and how it shares work with other builds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.model.plan import Plan
from penstock.run.claiming import Claiming, Replan
from penstock.run.claims.asking import Claims
from penstock.run.recording import RunRecorder


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One pipeline run."""

    recorder: RunRecorder
    plan: Callable[[], Plan]
    replan: Replan
    close_dead: Callable[[], object]
    wait_seconds: float

    def claim(self) -> Claiming:
        """From now on, items are claimed before they start."""
        self.recorder.is_claiming = True
        claims = Claims(self.recorder.log, self.recorder.events)
        self.recorder.is_taken_over = claims.is_taken_over
        return Claiming(claims, self.recorder, self.replan, self.close_dead, self.wait_seconds)
