"""Checking the flows of streaming tables against the columns of their sources, without applying anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.kinds.cdc.batch import resolve_batch
from penstock.kinds.cdc.change_files import ChangeFiles
from penstock.kinds.cdc.decide import CdcItem
from penstock.kinds.cdc.flow import check_keys
from penstock.kinds.cdc.load import errors_located, read_files, to_batch
from penstock.kinds.cdc.snapshots import to_snapshot_changes
from penstock.model.changes import END_AT, START_AT, FeedFiles, Flow, FlowSpec, SnapshotFunction
from penstock.model.dataset import Dataset
from penstock.model.schema import Column, Schema

if TYPE_CHECKING:
    from penstock.lake.planned_lake import PlannedLake


@dataclass(frozen=True, slots=True)
class FlowAnalysis:
    """Analyzes the streaming tables of one project."""

    lake: PlannedLake
    configuration: Mapping[str, str]

    def analyze(self, item: CdcItem) -> Schema | None:
        """The columns of the table; an error for a flow whose keys, lists or expressions do not fit its source."""
        flows = []
        for flow in item.work.spec.flows:
            with errors_located(item.dataset, flow):
                flows.append(self._resolve(item, flow))
        state = self.lake.state(item.dataset)
        if state.exists:
            return state.schema
        return _to_schema([flow for flow in flows if flow is not None])

    def analyze_unread(self, dataset: Dataset) -> None:
        """A streaming table always has a table."""

    def close(self) -> None:
        """The analysis keeps nothing in the session."""

    def _resolve(self, item: CdcItem, flow: FlowSpec) -> Flow | None:
        """The flow with the columns of its source; None when the source shows none now."""
        if isinstance(flow.source, SnapshotFunction):
            return None  # to ask the function is to read the next snapshot
        if isinstance(flow.source, FeedFiles):
            root = f"{flow.source.path.rstrip('/')}/"
            files = [file for file in item.work.files if file.path.startswith(root)]
            if not files:
                return None
            reader = ChangeFiles(self.lake.session, self.configuration)
            return resolve_batch(read_files(reader, flow, flow.source, files, None))
        rows = self.lake.read_shown(flow.source).limit(0)
        if not flow.is_snapshot:
            return resolve_batch(to_batch(flow, rows))
        check_keys(flow.options, rows.columns)
        return resolve_batch(to_snapshot_changes(flow, rows, None, F.current_timestamp()))


def _to_schema(flows: list[Flow]) -> Schema | None:
    """The columns that the flows give a new table; None when no source shows any."""
    columns = {column.key: column for flow in flows for column in flow.columns}
    if not columns:
        return None
    times = [Column(name, flows[0].sequence_type) for name in (START_AT, END_AT) if flows[0].keeps_history]
    return Schema((*columns.values(), *times))
