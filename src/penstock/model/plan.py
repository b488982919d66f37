"""The plan: what will be done to each dataset, and why. One object is explained by `plan` and executed by `run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.errors import Location, PenstockError
from penstock.model.contract import NO_CONTRACT, Contract
from penstock.model.drift import Change
from penstock.model.names import DatasetName
from penstock.model.progress import ConsumedFile, RawFile, TableState
from penstock.model.schema import FileColumn, Schema, SeenColumn
from penstock.model.spec import DatasetKind, DatasetSpec


class Action(StrEnum):
    """What happens to a dataset."""

    NONE = "none"
    APPEND = "append"
    EVOLVE = "evolve"
    """Change the columns of a table in place, then append."""
    APPLY = "apply"
    """Apply new change events to a streaming table."""
    REBUILD = "rebuild"
    RECOMPUTE = "recompute"
    DROP = "drop"
    SKIP = "skip"

    @property
    def is_work(self) -> bool:
        return self not in {Action.NONE, Action.SKIP}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an action was chosen: a stable code for machines and words for people."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with one dataset that keeps it from being worked on; the others go on."""

    code: str
    message: str
    hint: str | None = None
    location: Location | None = None

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message

    def to_error(self) -> PenstockError:
        """The problem as an error, where it leaves nothing else to tell."""
        error = PenstockError(self.message, hint=self.hint, location=self.location)
        error.code = self.code
        return error


@dataclass(frozen=True, slots=True)
class NewFile:
    """A raw file to be read by this plan, with what its footer says."""

    file: RawFile
    rows: int
    columns: tuple[FileColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class DatasetPlan:
    """What will be done to one dataset, why, and everything that the execution needs to do exactly that."""

    name: DatasetName
    kind: DatasetKind
    action: Action
    reasons: tuple[Reason, ...]
    inputs: tuple[DatasetName, ...] = ()
    files: tuple[NewFile, ...] = ()
    problem: Problem | None = None
    state: TableState = TableState()
    schema: Schema | None = None
    """A staging table's columns as they will be."""
    seen: tuple[SeenColumn, ...] = ()
    changes: tuple[Change, ...] = ()
    contract: Contract = NO_CONTRACT
    raw_files: int = 0
    raw_bytes: int = 0
    """All that raw has for the table now: what a full rebuild would read."""
    kept: tuple[ConsumedFile, ...] = ()
    """Files already in the table whose listing changed but not their content: refreshed with the next commit."""
    spec: DatasetSpec | None = None
    columns_read: Mapping[DatasetName, frozenset[str]] = field(default_factory=dict)
    """What a derived dataset reads of its inputs, where that is known."""
    definition: str | None = None
    settings: str | None = None

    @property
    def bytes_read(self) -> int:
        return sum(new.file.size for new in self.files)

    @property
    def rows_read(self) -> int:
        return sum(new.rows for new in self.files)

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "dataset": str(self.name),
            "kind": self.kind.value,
            "action": self.action.value,
            "reasons": [{"code": reason.code, "text": reason.text} for reason in self.reasons],
            "inputs": [str(name) for name in self.inputs],
            "files": [{"path": new.file.path, "bytes": new.file.size, "rows": new.rows} for new in self.files],
        }
        if self.kind is DatasetKind.STAGING:
            result["changes"] = [change.to_json() for change in self.changes]
            result["reads"] = {"files": len(self.files), "bytes": self.bytes_read, "rows": self.rows_read}
            # A row that is read is written once, as Parquet again: so many bytes, more or less.
            result["writes"] = {"rows": self.rows_read, "bytes_estimate": self.bytes_read}
            result["full_rebuild"] = {"files": self.raw_files, "bytes": self.raw_bytes}
        if self.problem is not None:
            location = self.problem.location
            result["problem"] = {
                "code": self.problem.code,
                "message": self.problem.message,
                "hint": self.problem.hint,
                "location": str(location) if location else None,
            }
        return result


@dataclass(frozen=True, slots=True)
class Plan:
    """All selected datasets, each after its inputs."""

    project: str
    target: str | None
    datasets: tuple[DatasetPlan, ...]
    temporary_views: Mapping[DatasetName, DatasetSpec] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    raw_bytes: int = 0
    """The size of all raw files: tells a small project from a large one."""

    @property
    def has_work(self) -> bool:
        return any(dataset.action.is_work for dataset in self.datasets)

    @property
    def has_problems(self) -> bool:
        return any(dataset.problem is not None for dataset in self.datasets)

    def to_json(self) -> dict[str, Any]:
        counts = {action.value: 0 for action in Action}
        for dataset in self.datasets:
            counts[dataset.action.value] += 1
        return {
            "format": 1,
            "project": self.project,
            "target": self.target,
            "summary": counts,
            "warnings": list(self.warnings),
            "datasets": [dataset.to_json() for dataset in self.datasets],
        }
