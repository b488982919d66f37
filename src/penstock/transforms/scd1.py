"""SCD1 by replay and diff: the event with the highest sequence decides, for the row or, in a partial flow, for each column."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.model.changes import Flow
from penstock.transforms.compare import compare_with_stored
from penstock.transforms.equality import is_same


def replay_scd1(flow: Flow, collapsed: DataFrame) -> DataFrame:
    """Keep the last event of each key, and store its last delete while no row has a higher sequence.

    A partial flow stores it below a row too: a late upsert from before it could still fill a column of the row.
    """
    key = Window.partitionBy("key")
    by_key = key.orderBy("sequence")
    is_final = F.lead("sequence").over(by_key).isNull()
    last_delete = F.max(F.when(F.col("is_delete"), F.col("sequence"))).over(key)
    is_last_delete = F.col("is_delete") & (F.col("sequence") == last_delete)
    is_lone = is_last_delete & ~F.col("is_truncated") & (F.lit(flow.is_partial) | is_final)
    cut = collapsed.withColumns(
        {
            "is_shown": is_final & ~F.col("is_delete"),
            "is_hidden": F.lit(False),
            "is_lone": is_lone,
            "start": F.lit(None).cast(flow.sequence_type),
            "end": F.lit(None).cast(flow.sequence_type),
        }
    )
    stored = F.col("stored")
    same = is_same(flow, stored["data"], F.col("shown"), collapsed)
    if flow.is_partial:
        same &= stored["filled"].eqNullSafe(F.col("filled"))
    return compare_with_stored(flow, cut, F.col("is_shown") & stored.isNotNull() & same)
