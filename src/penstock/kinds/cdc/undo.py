"""Undoing tombstones of a streaming table: its rows and stored change events are kept as change events, and applied again.

Rows alone would not do: change events that the auxiliary table keeps for a row count only as long as the row is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.kinds.cdc.apply import ChangeLoad
from penstock.kinds.cdc.auxiliary import Auxiliary
from penstock.kinds.cdc.batch import to_columns
from penstock.kinds.cdc.progress import CODEC
from penstock.kinds.cdc.suppress import SEQUENCE, SILENT, to_batch, to_rows
from penstock.kinds.protocol import PipelineRun
from penstock.kinds.undo import OnBegun
from penstock.lake.tables import Lake
from penstock.model.changes import END_AT, RESERVED, START_AT, Flow, FlowOptions
from penstock.model.dataset import Dataset
from penstock.model.names import DatasetName
from penstock.model.tombstones import SuppressedKeys
from penstock.transforms.arrow import to_frame
from penstock.transforms.change_events import (
    DELETE,
    UPSERT,
    Scope,
    collapse,
    drop_uncovered,
    explode_rows,
    find_affected,
    find_copies,
)
from penstock.transforms.suppress import Screen


def to_undo(lake: Lake, dataset: Dataset, run: PipelineRun) -> EventsUndo | None:
    """The undo of a streaming table; None when its definition is gone."""
    if dataset.spec is None or not dataset.spec.flows:
        return None
    load = ChangeLoad(lake, run.build_request_id, dataset.spec.layout, run.suppression)
    return EventsUndo(lake, dataset.name, dataset.spec.flows[0].options, load)


@dataclass(frozen=True, slots=True)
class EventsUndo:
    """What is stored of a key as change events."""

    lake: Lake
    name: DatasetName
    options: FlowOptions
    load: ChangeLoad
    """Applies change events with the suppression as it is after the undo."""
    keeps_rows: bool = False

    def take(self, hidden: Sequence[SuppressedKeys]) -> pa.Table:
        state = self.lake.read_state(self.name, CODEC)
        target = self.lake.read(self.name)
        flow = self._flow(target)
        everything = Scope(target, is_timeless=True, first=None, is_for_all=True)
        rows = find_affected(flow, Screen(tuple(hidden)).keep(target), everything)
        events = explode_rows(flow, rows).withColumns(
            {"attempt": F.lit(None).cast("bigint"), "truncated": F.lit(None).cast("boolean")}
        )
        segments = state.payload.segments if state.payload else ()
        if segments:
            auxiliary = Auxiliary(self.lake.session, self.lake.files, self.name, state.number or 0)
            copies = find_copies(auxiliary.read(segments, flow), everything)
            keyed = copies.select("*", *(F.col("key")[key].alias(key) for key in flow.keys))
            kept = Screen(tuple(hidden)).keep(keyed).drop(*flow.keys)
            events = events.drop("attempt").unionByName(kept, allowMissingColumns=True)
            events = drop_uncovered(events) if flow.keeps_history else events
        found = collapse(flow, events).withColumn("kind", F.when(F.col("is_delete"), DELETE).otherwise(UPSERT))
        return Screen(tuple(hidden), sequence=F.col(SEQUENCE)).match(to_rows(flow, found)).toArrow()

    def put_back(self, kept: pa.Table, still_hidden: Sequence[SuppressedKeys], on_begun: OnBegun) -> None:
        del still_hidden, on_begun  # the load leaves out what is still hidden; applying events twice changes nothing
        is_partial = kept.column(SILENT).null_count < kept.num_rows
        rows = to_frame(self.lake.session, kept)
        self.load.apply(self.name, to_batch(rows, self.options, is_partial=is_partial))

    def _flow(self, target: DataFrame) -> Flow:
        """The flow as far as stored events need it."""
        columns = [c for c in to_columns(target) if c.name not in {START_AT, END_AT, RESERVED}]
        by_key = {column.key: column for column in columns}
        reserved = target.schema[RESERVED].dataType
        fields = reserved.fieldNames() if isinstance(reserved, T.StructType) else []
        sequence = target.select(f"{RESERVED}.sequence").schema.fields[0].dataType.simpleString()
        return Flow(
            keys=tuple(by_key[key.lower()].name for key in self.options.keys),
            columns=tuple(columns),
            sequence_type=sequence,
            scd_type=2 if END_AT in target.columns else 1,
            is_partial="filled" in fields,
        )
