"""SCD2 by replay and diff: from the collapsed events of each key to the rows that change, and the events to store."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.model.changes import Flow
from penstock.transforms.compare import compare_with_stored
from penstock.transforms.equality import is_same


def replay_scd2(flow: Flow, collapsed: DataFrame) -> DataFrame:
    """Split the events of each key into runs of equal rows, and compare with what is stored; see `compare_with_stored`."""
    return compare_with_stored(flow, _cut_runs(flow, collapsed), _is_kept(flow, collapsed))


def _cut_runs(flow: Flow, collapsed: DataFrame) -> DataFrame:
    """Add the `start` and `end` of the run of equal rows of each event, and whether it is shown, hidden, or a lone delete."""
    by_key = Window.partitionBy("key").orderBy("sequence")
    is_delete = F.col("is_delete")
    after_delete = F.coalesce(F.lag("is_delete").over(by_key), F.lit(True))
    same_tracked = is_same(flow, F.col("shown"), F.lag("shown").over(by_key), collapsed, flow.tracked)
    begins = ~is_delete & (after_delete | ~same_tracked)
    cut = collapsed.withColumns({"begins": begins, "is_lone": is_delete & after_delete & ~F.col("is_truncated")})
    is_last = F.coalesce(F.lead(F.col("is_delete") | F.col("begins")).over(by_key), F.lit(True))
    return cut.withColumns(
        {
            "start": F.last(F.when(F.col("begins"), F.col("sequence")), ignorenulls=True).over(by_key),
            "end": F.lead("sequence").over(by_key),
            "is_shown": ~is_delete & is_last,
            "is_hidden": ~is_delete & ~is_last,
        }
    )


def _is_kept(flow: Flow, collapsed: DataFrame) -> Column:
    """Whether the stored row does not change."""
    stored = F.col("stored")
    same = is_same(flow, stored["data"], F.col("shown"), collapsed)
    same &= stored["start"].eqNullSafe(F.col("start")) & stored["end"].eqNullSafe(F.col("end"))
    if flow.is_partial:
        same &= stored["filled"].eqNullSafe(F.col("filled"))
    return F.col("is_shown") & stored.isNotNull() & same
