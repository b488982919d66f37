"""What a pipeline run did: per load, per dataset and in total."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.model.changes import ChangeMetrics
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Problem, Reason
from penstock.model.spec import OnViolation


@dataclass(frozen=True, slots=True)
class ExpectationOutcome:
    """How many rows failed one expectation."""

    name: str
    on_violation: OnViolation
    violations: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of change events that a load applied."""

    flow: str
    metrics: ChangeMetrics


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What one load wrote, by Delta's commit metrics."""

    version: int | None
    """The table's version after the load; None when the table no longer exists."""
    rows: int
    expectations: tuple[ExpectationOutcome, ...] = ()
    quarantined: int = 0
    """Rows of source files that did not fit the declared columns."""
    suppressed: int = 0
    """Rows of source files, or change events, that were left out because their key has a tombstone."""
    duplicates: int = 0
    """Rows of source files that were left out because a later row has the same declared key."""
    skipped: int = 0
    """Rows of a source that a rule of the load leaves out: those whose cursor is NULL."""
    batches: tuple[Batch, ...] = ()
    """What was applied, batch by batch."""
    is_waiting: bool = False
    """The table does not exist yet, because no source data has arrived."""
    delegated_to: str | None = None
    """The build that did it instead; an empty text when that is not known any more."""

    @property
    def has_violations(self) -> bool:
        return bool(self.quarantined or self.skipped) or any(outcome.violations for outcome in self.expectations)


class Outcome(StrEnum):
    """How one item ended."""

    PASS = "pass"  # noqa: S105 - not a password
    WARN = "warn"
    ERROR = "error"
    SKIP = "skip"
    NO_OP = "no-op"
    CANCELLED = "cancelled"
    """Stopped by a signal or a cancel, or not started because of it."""


CANCEL_REQUESTED = "cancel_requested"
"""The reason code of a result that somebody asked for with `penstock cancel`."""


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What was planned and how it ended."""

    id: str
    dataset: DatasetName
    action: Action
    outcome: Outcome
    reasons: tuple[Reason, ...] = ()
    seconds: float = 0.0
    load: LoadResult | None = None
    problem: Problem | None = None

    @property
    def is_cancel_requested(self) -> bool:
        """Whether somebody asked to cancel it, and no signal stopped the run."""
        return any(reason.code == CANCEL_REQUESTED for reason in self.reasons)

    def to_json(self) -> dict[str, Any]:
        load = self.load
        return {
            "dataset": str(self.dataset),
            **({"id": self.id} if self.id != str(self.dataset) else {}),
            "action": self.action.value,
            "status": self.outcome.value,
            "reasons": [reason.to_json() for reason in self.reasons],
            "seconds": round(self.seconds, 3),
            "version": load.version if load else None,
            "rows": load.rows if load else None,
            "quarantined": load.quarantined if load else 0,
            "suppressed": load.suppressed if load else 0,
            "duplicates": load.duplicates if load else 0,
            "skipped": load.skipped if load else 0,
            "expectations": [
                {"name": e.name, "on_violation": e.on_violation.value, "violations": e.violations}
                for e in (load.expectations if load else ())
            ],
            "error": self.problem.to_json() if self.problem else None,
        }


@dataclass(frozen=True, slots=True)
class RunResult:
    """A whole pipeline run."""

    build_request_id: str
    items: tuple[ItemResult, ...]
    seconds: float
    stopped: str | None = None
    """What stopped it before its end."""

    @property
    def has_failed(self) -> bool:
        """Whether something was not done: it failed, or was cancelled while the rest went on."""
        return any(item.outcome in {Outcome.ERROR, Outcome.CANCELLED} for item in self.items)

    def count(self, outcome: Outcome) -> int:
        return sum(item.outcome is outcome for item in self.items)

    @property
    def summary(self) -> str:
        """The last line of a pipeline run, for people and for scripts that parse it."""
        counts = " ".join(f"{outcome.value.upper()}={count}" for outcome, count in self._counts.items())
        return f"{'Cancelled' if self.stopped else 'Done'}. {counts} TOTAL={len(self.items)}"

    @property
    def _counts(self) -> dict[Outcome, int]:
        """How many items ended how; cancelled ones are only named where there are some, or the run was stopped."""
        shown = {each: self.count(each) for each in Outcome}
        return {each: count for each, count in shown.items() if self.stopped or count or each is not Outcome.CANCELLED}

    def to_json(self) -> dict[str, Any]:
        return {
            "format": 1,
            "build_request_id": self.build_request_id,
            "seconds": round(self.seconds, 3),
            **({"stopped": self.stopped} if self.stopped else {}),
            "summary": {outcome.value: count for outcome, count in self._counts.items()},
            "datasets": [item.to_json() for item in self.items],
        }


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a table, in no particular order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
