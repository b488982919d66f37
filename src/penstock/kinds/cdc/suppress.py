"""Change events of suppressed keys: left out before a batch is checked, and kept aside while they can come back.

What is kept aside has the form of a source: one row per change event, with the columns of the target and three more. So an undo
is a batch like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.kinds.cdc.batch import ChangeBatch, to_events
from penstock.model.changes import Flow, FlowOptions
from penstock.model.tombstones import SuppressedKeys
from penstock.model.types import quote_name
from penstock.transforms.change_events import DELETE, TRUNCATE
from penstock.transforms.suppress import TOMBSTONE, Screen

SEQUENCE, KIND, SILENT = "__sequence", "__kind", "__silent"


def screen_of(batch: ChangeBatch, suppressed: Sequence[SuppressedKeys]) -> Screen:
    """Recognizes the suppressed keys in the rows of a batch; a truncate is never dropped, a delete is."""
    return Screen(tuple(suppressed), sequence=batch.sequence, exempt=batch.is_truncate)


def drop_suppressed(batch: ChangeBatch, suppressed: Sequence[SuppressedKeys]) -> ChangeBatch:
    """The batch without the change events of suppressed keys."""
    return replace(batch, screen=screen_of(batch, suppressed))


def find_kept_aside(flow: Flow, batch: ChangeBatch, suppressed: Sequence[SuppressedKeys]) -> pa.Table | None:
    """The change events that are left out and can still come back; None when no tombstone can be withdrawn."""
    screen = screen_of(batch, suppressed).undoable()
    if not screen:
        return None
    events = to_events(flow, replace(batch, frame=screen.keep(batch.frame)), flow.names)
    rows = to_rows(flow, events.where((F.col("kind") != TRUNCATE) & ~F.col("is_bad")))
    return Screen(screen.suppressed, sequence=F.col(SEQUENCE)).match(rows).toArrow()


def to_rows(flow: Flow, events: DataFrame) -> DataFrame:
    """Change events as rows of a source."""
    keys = {key.lower() for key in flow.keys}
    columns = []
    for column in flow.columns:
        value = F.col("data")[column.name]
        columns.append(
            (F.coalesce(value, F.col("key")[column.name]) if column.key in keys else value).alias(column.name)
        )
    return events.select(
        *columns, F.col("sequence").alias(SEQUENCE), F.col("kind").alias(KIND), F.col("silent").alias(SILENT)
    )


def to_batch(rows: DataFrame, options: FlowOptions, *, is_partial: bool) -> ChangeBatch:
    """Rows that were kept aside, as a batch; of a partial flow, some leave columns unspecified."""
    frame = rows.drop(TOMBSTONE)
    kept = replace(options, column_list=None, except_column_list=(SEQUENCE, KIND, SILENT))
    return ChangeBatch(
        frame,
        kept,
        sequence=F.col(quote_name(SEQUENCE)),
        is_delete=F.col(quote_name(KIND)) == DELETE,
        is_truncate=F.lit(False),
        unavailable=F.coalesce(F.col(quote_name(SILENT)), F.array().cast("array<string>")) if is_partial else None,
    )
