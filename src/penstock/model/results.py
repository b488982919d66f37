"""What a run did: per load, per dataset and in all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.model.names import DatasetName
from penstock.model.plan import Action, Problem, Reason
from penstock.model.spec import OnViolation


@dataclass(frozen=True, slots=True)
class ExpectationOutcome:
    """How many rows broke one expectation."""

    name: str
    on_violation: OnViolation
    violations: int


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What one load wrote, as Delta's own commit metrics tell it."""

    version: int | None
    """The table's version after the load; None when there is no table any more."""
    rows: int
    expectations: tuple[ExpectationOutcome, ...] = ()
    quarantined: int = 0
    """Rows of raw files that did not fit the declared columns."""

    @property
    def has_violations(self) -> bool:
        return bool(self.quarantined) or any(outcome.violations for outcome in self.expectations)


class Outcome(StrEnum):
    """How it ended for one dataset."""

    PASS = "pass"  # noqa: S105 - not a password
    WARN = "warn"
    ERROR = "error"
    SKIP = "skip"
    NO_OP = "no-op"


@dataclass(frozen=True, slots=True)
class DatasetResult:
    """What was planned for a dataset and how it ended."""

    name: DatasetName
    action: Action
    outcome: Outcome
    reasons: tuple[Reason, ...] = ()
    seconds: float = 0.0
    load: LoadResult | None = None
    problem: Problem | None = None

    def to_json(self) -> dict[str, Any]:
        load = self.load
        return {
            "dataset": str(self.name),
            "action": self.action.value,
            "status": self.outcome.value,
            "reasons": [{"code": reason.code, "text": reason.text} for reason in self.reasons],
            "seconds": round(self.seconds, 3),
            "version": load.version if load else None,
            "rows": load.rows if load else None,
            "quarantined": load.quarantined if load else 0,
            "expectations": [
                {"name": e.name, "on_violation": e.on_violation.value, "violations": e.violations}
                for e in (load.expectations if load else ())
            ],
            "error": (
                {
                    "code": self.problem.code,
                    "message": self.problem.message,
                    "hint": self.problem.hint,
                    "location": str(self.problem.location) if self.problem.location else None,
                }
                if self.problem
                else None
            ),
        }


@dataclass(frozen=True, slots=True)
class RunResult:
    """A whole run."""

    build_request_id: str
    datasets: tuple[DatasetResult, ...]
    seconds: float

    @property
    def has_failed(self) -> bool:
        return any(dataset.outcome is Outcome.ERROR for dataset in self.datasets)

    def count(self, outcome: Outcome) -> int:
        return sum(dataset.outcome is outcome for dataset in self.datasets)

    @property
    def summary(self) -> str:
        """The last line of a run, for people and for scripts that look for it."""
        counts = " ".join(f"{outcome.value.upper()}={self.count(outcome)}" for outcome in Outcome)
        return f"Done. {counts} TOTAL={len(self.datasets)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "format": 1,
            "build_request_id": self.build_request_id,
            "seconds": round(self.seconds, 3),
            "summary": {outcome.value: self.count(outcome) for outcome in Outcome},
            "datasets": [dataset.to_json() for dataset in self.datasets],
        }


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a table, as they come."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
