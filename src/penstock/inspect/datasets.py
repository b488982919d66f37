"""Inspecting datasets without a JVM: which exist, what a table holds, and its history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import StorageError
from penstock.kinds.catalog import Catalog
from penstock.lake.delta_log import Commit, DamagedLogError, iter_commits
from penstock.lake.manifests import find_build
from penstock.lake.progress import ENVELOPE, read_table_state
from penstock.maintenance.compaction.facts import read_table_facts
from penstock.model.clock import SystemClock
from penstock.model.compaction import Policy
from penstock.model.dataset import Dataset, Shown
from penstock.model.names import DatasetName
from penstock.model.progress import TableState
from penstock.model.schema import Schema
from penstock.model.spec import DatasetSpec
from penstock.storage.files import Files
from penstock.tombstones.store import TombstoneStore


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """One dataset as `ls` shows it."""

    dataset: Dataset
    state: TableState[Any]
    shown: Shown
    last: Commit | None = None

    @property
    def name(self) -> DatasetName:
        return self.dataset.name

    @property
    def kind(self) -> str:
        return self.dataset.kind

    @property
    def spec(self) -> DatasetSpec | None:
        return self.dataset.spec

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": str(self.name),
            "kind": self.kind,
            "version": self.state.version,
            "updated_at": to_nanoseconds(self.last) if self.last else None,
            "files_loaded": self.shown.details.get("files_loaded", 0),
            "damage": self.state.damage.code if self.state.damage else None,
            "tags": list(self.spec.tags) if self.spec else [],
            "location": str(self.spec.location) if self.spec else None,
        }


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows a table has, by its log."""

    visible: int
    physical: int
    """Visible rows, and hidden ones that are still on storage."""


@dataclass(frozen=True, slots=True)
class DatasetDetails:
    """One dataset as `show` shows it."""

    info: DatasetInfo
    schema: Schema | None
    path: str
    has_quarantine: bool = False
    rows: RowCounts | None = None
    """None when there is no table, or its log cannot be read."""
    reader_notes: tuple[str, ...] = ()
    """Which programs may not read the table rightly."""

    def to_json(self) -> dict[str, Any]:
        spec = self.info.spec
        return {
            **self.info.to_json(),
            "path": self.path,
            "visible_rows": self.rows.visible if self.rows else None,
            "physical_rows": self.rows.physical if self.rows else None,
            "reader_notes": list(self.reader_notes),
            "comment": spec.layout.comment if spec else None,
            "inputs": [str(name) for name in spec.inputs] if spec else [],
            "readers": [str(reader.name) for reader in self.info.dataset.readers],
            "columns": self.schema.to_json() if self.schema else [],
            "expectations": [expectation.to_json() for expectation in (spec.expectations if spec else ())],
            "files": [],
            "quarantine": str(self.info.name.quarantine) if self.has_quarantine else None,
            "auxiliary": None,
            **self.info.shown.details,
        }


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One version of a table: when, how, and by which run."""

    commit: Commit
    build_request_id: str | None

    def to_json(self) -> dict[str, Any]:
        rows = self.commit.metrics.get("numOutputRows")
        return {
            "version": self.commit.version,
            "timestamp": to_nanoseconds(self.commit),
            "operation": self.commit.operation,
            "rows_written": int(rows) if rows is not None else None,
            "number": self.commit.number,
            "build_request_id": self.build_request_id,
        }


def to_nanoseconds(commit: Commit) -> int:
    """When a commit was made, in the unit of all times in JSON: nanoseconds since 1970, in UTC."""
    return commit.timestamp_ms * 1_000_000


def describe_dataset(catalog: Catalog, dataset: Dataset) -> DatasetInfo:
    """A dataset with its state and its last commit."""
    state = catalog.state(dataset)
    shown = catalog.kind_of(dataset.kind).show(dataset, state)
    last = _read_last(catalog.workspace.storage, dataset.name) if state.exists else None
    return DatasetInfo(dataset, state, shown, last)


def _read_last(files: Files, name: DatasetName) -> Commit | None:
    try:
        return next(iter_commits(files, name.path), None)
    except DamagedLogError:  # the state reports it
        return None


def count_rows(files: Files, name: DatasetName, state: TableState[Any]) -> RowCounts | None:
    """The visible and physical rows of a table."""
    store = TombstoneStore(files, SystemClock())
    try:
        tombstones = store.read([name])
        facts = read_table_facts(files, name, Policy(), state=state, tombstones=tombstones, with_rows=True)
    except StorageError:  # the state reports it
        return None
    return RowCounts(facts.visible_rows or 0, facts.physical_rows or 0)


def is_built(files: Files, name: DatasetName) -> bool:
    """Whether the table exists."""
    return read_table_state(files, name, ENVELOPE).exists


def read_history(files: Files, name: DatasetName, limit: int) -> list[HistoryEntry]:
    """The last versions of a table, newest first."""
    entries: list[HistoryEntry] = []
    for commit in iter_commits(files, name.path):
        if len(entries) >= limit:
            break
        build = find_build(files, name, commit.number) if commit.number is not None else None
        entries.append(HistoryEntry(commit, build))
    return entries
