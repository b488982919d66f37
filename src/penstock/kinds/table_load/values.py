"""Loads as values: what was observed of a source, and the work that follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from penstock.databases.contract import Bound, Look
from penstock.kinds.table_load.progress import LoadProgress
from penstock.model.drift import ColumnChange
from penstock.model.fingerprint import fingerprint
from penstock.model.loads import LoadOptions, Strategy
from penstock.model.plan import Problem
from penstock.model.progress import TableState
from penstock.model.schema import Schema
from penstock.model.spec import DatasetKind, DatasetSpec

KIND = str(DatasetKind.LOAD)
LANDING = "landing"
"""The folder of landed rows, beside the progress manifests."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The strategy of a load, and why."""

    strategy: Strategy
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class News:
    """What a timestamp load found out without reading rows."""

    bound: Bound
    has_rows: bool


@dataclass(frozen=True, slots=True)
class LoadObservation:
    """Everything known about one load before the decision."""

    spec: DatasetSpec
    options: LoadOptions
    state: TableState[LoadProgress]
    shown: str
    """What messages call the source."""
    source: str
    """Which table it is, as it was declared."""
    now: datetime
    choice: Choice | None = None
    look: Look | None = None
    """None when the source is asked at run."""
    news: News | None = None
    problem: Problem | None = None
    """Why the source cannot be asked."""
    warnings: tuple[str, ...] = ()
    """What no longer holds of the evidence that the advisor chose by."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """What is really read (`origins.to_origin`); empty when it is not known."""

    @property
    def payload(self) -> LoadProgress | None:
        return self.state.payload


@dataclass(frozen=True, slots=True)
class LoadWork:
    """What executing a load needs to know."""

    spec: DatasetSpec
    options: LoadOptions
    state: TableState[LoadProgress]
    shown: str
    source: str
    settings: str
    choice: Choice
    look: Look | None = None
    schema: Schema | None = None
    """The table's columns afterwards; None when the source is asked at run."""
    column_changes: tuple[ColumnChange, ...] = ()
    checks_deletes: bool = False
    reads_all: bool = False
    """Whether a timestamp load reads and compares all rows once, whatever their cursor."""
    since: str | None = None
    """Where the window of a timestamp load begins, for the plan."""
    bound: Bound | None = None
    rows: int | None = None
    """An estimate of all rows of the source."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """What is really read (`origins.to_origin`); empty when it is not known."""

    @property
    def begun_from(self) -> str:
        """What a first load that goes on must still read."""
        return fingerprint(dict(self.origin)) if self.origin else self.source

    @property
    def strategy(self) -> Strategy:
        return self.choice.strategy
