"""Streaming tables as values: what was observed of their sources, and the work that follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.kinds.cdc.progress import CdcProgress
from penstock.model.changes import FlowSpec
from penstock.model.progress import RawFile, TableState
from penstock.model.spec import DatasetSpec

QUARANTINED_ROW = "row_json"
"""The column of the quarantine table with the row of the source, as JSON."""


@dataclass(frozen=True, slots=True)
class CdcObservation:
    """Everything known about one streaming table before the decision."""

    spec: DatasetSpec
    state: TableState[CdcProgress]
    files: Mapping[str, Sequence[RawFile]] = field(default_factory=dict)
    """What is in the folder of each flow of change files now, by the flow's name."""
    replaced: frozenset[str] = frozenset()
    """Files that were read, and that Penstock itself has replaced since by the same without erased records."""


@dataclass(frozen=True, slots=True)
class CdcWork:
    """What applying change events to a streaming table needs to know."""

    spec: DatasetSpec
    flows: tuple[FlowSpec, ...]
    files: tuple[RawFile, ...] = ()
    """The change files to read."""
    version: int | None = None
    """The table's version when this was planned."""
    all_bytes: int = 0
