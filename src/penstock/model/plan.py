"""The plan: work items with their reasons. `plan` shows it, and `run` executes it.

Nothing here knows the kinds of datasets: what only a kind understands is an item's `work`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.errors import Location, PenstockError
from penstock.model.drift import ColumnChange
from penstock.model.names import DatasetName
from penstock.model.partitions.declared import DUE, PartitionRequest
from penstock.model.partitions.refs import name_parts
from penstock.model.partitions.schemes import Countable
from penstock.model.progress import TableState
from penstock.model.schema import Schema

W = TypeVar("W")


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
    HIDE = "hide"
    """Hide the rows of tombstones."""
    ERASE = "erase"
    """Remove hidden rows from everything that holds them."""
    COMPACT = "compact"
    """Merge small files and fold in row changes."""
    SKIP = "skip"

    @property
    def is_work(self) -> bool:
        return self not in {Action.NONE, Action.SKIP}

    @property
    def is_skip(self) -> bool:
        return self is Action.SKIP

    @property
    def removes_table(self) -> bool:
        return self is Action.DROP


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an action was chosen: a stable code for programs and a text for people."""

    code: str
    text: str
    location: Location | None = None
    """The place in a definition that it is about."""

    def __str__(self) -> str:
        return f"{self.text} ({self.location})" if self.location else self.text

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "text": str(self)}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error of one dataset that stops its work; the other datasets continue."""

    code: str
    message: str
    hint: str | None = None
    location: Location | None = None
    is_retryable: bool = False
    failed: tuple[str, ...] = ()
    """The partitions that failed, where others of the same item did not."""

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message

    @staticmethod
    def from_error(error: PenstockError) -> Problem:
        """An error of one dataset as a value."""
        return Problem(error.code, error.message, error.hint, error.location, error.retryable, error.failed_parts)

    def to_error(self) -> PenstockError:
        """The problem as an error, where there is nothing else to report."""
        error = PenstockError(self.message, hint=self.hint, location=self.location)
        error.code = self.code
        error.retryable, error.failed_parts = self.is_retryable, self.failed
        return error

    def to_json(self) -> dict[str, str | None]:
        location = str(self.location) if self.location else None
        return {"code": self.code, "message": self.message, "hint": self.hint, "location": location}


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The columns that a table may have, where their types are not known; it has no others."""

    names: tuple[str, ...]
    has_texts: bool = False
    """It may also have columns whose names are not words, such as `sum(a)`."""
    certain: frozenset[str] = frozenset()
    """Those that it certainly has, in lower case."""

    def may_have(self, name: str) -> bool:
        """Tell whether a column of this name, in lower case, may be there."""
        if name in self.certain or (self.has_texts and not name.isidentifier()):
            return True
        return any(each.lower() == name for each in self.names)


@dataclass(frozen=True, slots=True)
class Effect:
    """What an item does to its table, as far as other datasets and the event log may know."""

    rows_change: bool = False
    replaces_rows: bool = False
    """The rows that the table holds now are known to be wrong or outdated."""
    schema: Schema | None = None
    """The columns afterwards, where the plan knows them."""
    column_changes: tuple[ColumnChange, ...] | None = None
    """How the columns change; None for a table whose columns come from its definition."""
    names: ColumnNames | None = None
    """The columns afterwards of such a table, where its definition tells them for certain."""


@dataclass(frozen=True, slots=True)
class WorkItem(Generic[W]):
    """A unit of planned work on one dataset or one of its partitions, with everything that its execution needs."""

    dataset: DatasetName
    kind: str
    action: Action
    reasons: tuple[Reason, ...]
    work: W
    """What the item's kind needs to do exactly this."""
    partition: str | None = None
    upstream: tuple[str, ...] = ()
    """The datasets, or the ids of the items, that must be done first."""
    problem: Problem | None = None
    effect: Effect = field(default_factory=Effect)
    bytes_read: int = 0
    source_bytes: int = 0
    """Size of all source files: what a full rebuild would read."""
    is_parallel: bool = False
    """Whether it may run at the same time as other items of the same table."""
    parts: tuple[str, ...] = ()
    """The partitions that it builds, such as `date=2024-01-01`; empty for a whole dataset."""

    @property
    def id(self) -> str:
        return str(self.dataset) if self.partition is None else f"{self.dataset}/{self.partition}"

    @property
    def refs(self) -> tuple[str, ...]:
        """What it builds, as the event log names it: each of its partitions, or the item as a whole."""
        return tuple(f"{self.dataset}/{part}" for part in self.parts) or (self.id,)

    def narrowed(self, parts: tuple[str, ...], note: str = "") -> WorkItem[W]:
        """The same work for some of the partitions only; a note tells its id from those of others with the same ends."""
        return replace(self, parts=parts, partition=f"{name_parts(parts)}{note}")

    def refused(self, problem: Problem) -> WorkItem[W]:
        """The same item with nothing to do, because of this problem."""
        reasons = (*self.reasons, Reason(problem.code, problem.message))
        return replace(self, action=Action.SKIP, problem=problem, reasons=reasons, effect=Effect())


Item: TypeAlias = WorkItem[Any]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asked for, for one dataset."""

    full_refresh: bool = False
    may_lose_history: bool = False
    drop_retired: bool = False
    continuous: bool = False
    """Only what can be kept up to date while waiting for changes."""
    partitions: PartitionRequest = DUE
    """Which partitions are wanted, and how they are put into job runs."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """An input, as the datasets that read it may know it: its table now, and what this plan does to it."""

    name: DatasetName
    state: TableState[Any]
    items: tuple[Item, ...] = ()
    scheme: Countable | None = None
    """How it is partitioned, if it is."""

    @property
    def is_broken(self) -> bool:
        return any(item.action.is_skip for item in self.items)

    @property
    def work(self) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.action.is_work)

    @property
    def will_exist(self) -> bool:
        return self.state.exists or bool(self.work)

    @property
    def actions(self) -> str:
        """What happens to the input in this run, as text."""
        return ", ".join(sorted({item.action.value for item in self.work}))


def find_broken_inputs(inputs: Mapping[DatasetName, Upstream]) -> Reason | None:
    """Why a dataset must wait for its inputs; None when all of them can be brought up to date."""
    broken = [str(upstream.name) for upstream in inputs.values() if upstream.is_broken]
    return Reason("upstream_error", f"{', '.join(broken)} cannot be brought up to date") if broken else None


def find_missing_input(inputs: Mapping[DatasetName, Upstream]) -> DatasetName | None:
    """The first input that has no table, and gets none in this run."""
    return next((upstream.name for upstream in inputs.values() if not upstream.will_exist), None)


@dataclass(frozen=True, slots=True)
class PlanLine:
    """What a kind says about one of its items: for the table that people read, and for JSON."""

    reads: str = "-"
    note: str = ""
    """Follows the reasons."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the JSON plan that only this kind has."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All selected work, each item after what it reads."""

    project: str
    target: str | None
    items: tuple[Item, ...]
    lines: Mapping[str, PlanLine] = field(default_factory=dict)
    """What the kinds say about their items, by the item's id."""
    warnings: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    """Every address that the work may read or write: decides which connectors a session needs."""
    maintenance: tuple[Item, ...] = ()
    """What `penstock maintain` would do: no part of a pipeline run."""
    parallel: int | None = None
    """How many items run at the same time; None for the project's setting."""
    max_failures: int | None = None
    """After more failed partitions than this, nothing new begins."""

    @property
    def has_work(self) -> bool:
        return any(item.action.is_work for item in self.items)

    @property
    def has_problems(self) -> bool:
        return any(item.problem is not None for item in self.items)

    @property
    def source_bytes(self) -> int:
        """The size of all source files of these items: shows whether a pipeline run is small."""
        return sum(max(item.source_bytes, item.bytes_read) for item in self.items)

    def line(self, item: Item) -> PlanLine:
        return self.lines.get(item.id, PlanLine())

    @property
    def counts(self) -> dict[Action, int]:
        """The number of items of each action, also of those that no item has."""
        found = Counter(item.action for item in self.items)
        return {each: found[each] for each in Action}

    def to_json(self) -> dict[str, Any]:
        return {
            "format": 1,
            "project": self.project,
            "target": self.target,
            "summary": {action.value: count for action, count in self.counts.items()},
            "warnings": list(self.warnings),
            "datasets": [_to_json(item, self.line(item)) for item in self.items],
            "maintenance": [
                {
                    "dataset": str(item.dataset),
                    "action": item.action.value,
                    "reasons": [reason.to_json() for reason in item.reasons],
                }
                for item in self.maintenance
            ],
        }


def _to_json(item: Item, line: PlanLine) -> dict[str, Any]:
    result: dict[str, Any] = {
        "dataset": str(item.dataset),
        "kind": str(item.kind),
        "action": item.action.value,
        "reasons": [reason.to_json() for reason in item.reasons],
        "inputs": list(item.upstream),
        "files": [],
        **({"partition": item.partition} if item.partition is not None else {}),
        **({"partitions": list(item.parts)} if item.parts else {}),
        **line.details,
    }
    if item.problem is not None:
        result["problem"] = item.problem.to_json()
    return result
