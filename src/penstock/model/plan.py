"""The plan: what will be done to each dataset, and why. One object is explained by `plan` and executed by `run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.errors import Location
from penstock.model.names import DatasetName
from penstock.model.progress import ConsumedFile, RawFile, TableState
from penstock.model.schema import Schema
from penstock.model.spec import DatasetKind, DatasetSpec


class Action(StrEnum):
    """What happens to a dataset."""

    NONE = "none"
    APPEND = "append"
    REBUILD = "rebuild"
    RECOMPUTE = "recompute"
    SKIP = "skip"

    @property
    def is_work(self) -> bool:
        return self in {Action.APPEND, Action.REBUILD, Action.RECOMPUTE}


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


@dataclass(frozen=True, slots=True)
class NewFile:
    """A raw file to be read by this plan, with what its footer says."""

    file: RawFile
    rows: int


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
    kept: tuple[ConsumedFile, ...] = ()
    """Files already in the table whose listing changed but not their content: refreshed with the next commit."""
    spec: DatasetSpec | None = None
    definition: str | None = None
    settings: str | None = None

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "dataset": str(self.name),
            "kind": self.kind.value,
            "action": self.action.value,
            "reasons": [{"code": reason.code, "text": reason.text} for reason in self.reasons],
            "inputs": [str(name) for name in self.inputs],
            "files": [{"path": new.file.path, "bytes": new.file.size, "rows": new.rows} for new in self.files],
        }
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
