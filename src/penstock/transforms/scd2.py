"""SCD2 by replay and diff: from the collapsed events of each key to the rows that change, and what is to be remembered."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.model.changes import Flow
from penstock.transforms.change_events import DELETE, UPSERT, is_same


def replay_scd2(flow: Flow, collapsed: DataFrame) -> DataFrame:
    """Cut the events of each key into runs, and compare with what is stored; see `find_difference` for the columns."""
    return find_difference(flow, _cut_runs(flow, collapsed), _is_kept(flow, collapsed))


def _cut_runs(flow: Flow, collapsed: DataFrame) -> DataFrame:
    """Add to each event: the `start` and `end` of its run, and whether it is shown, hidden in its run, or a lone delete."""
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
    """Whether the stored row stays as it is."""
    stored = F.col("stored")
    same = is_same(flow, stored["data"], F.col("shown"), collapsed)
    same &= stored["start"].eqNullSafe(F.col("start")) & stored["end"].eqNullSafe(F.col("end"))
    if flow.is_partial:
        same &= stored["given"].eqNullSafe(F.col("given"))
    return F.col("is_shown") & stored.isNotNull() & same


def find_difference(flow: Flow, cut: DataFrame, is_kept: Column) -> DataFrame:
    """Events that change something: `added` is the row to write, `removed` the number of the row to take out,
    `is_remembered` the event itself for the auxiliary table, `forget` the attempts whose copies of it are of no use."""
    is_needed = F.col("is_hidden") | F.col("is_lone")

    def is_useful(copy: Column) -> Column:
        """Whether a copy says what must be remembered at its place."""
        same = is_same(flow, copy["data"], F.col("data"), cut) & copy["given"].eqNullSafe(F.col("given"))
        hidden = (copy["kind"] == UPSERT) & F.col("is_hidden") & same
        return hidden | ((copy["kind"] == DELETE) & F.col("is_lone"))

    kept_copies = F.filter("copies", is_useful)
    forget = F.transform(F.filter("copies", lambda copy: ~is_useful(copy)), lambda copy: copy["attempt"])
    # A delete at which a row ended may still lie in the auxiliary table, but it was given up then.
    is_known = (F.size(kept_copies) > 0) & ~(F.col("is_delete") & F.col("was_end"))
    judged = cut.withColumn("is_kept", is_kept)
    return judged.select(
        "key",
        "sequence",
        F.when(F.col("is_delete"), DELETE).otherwise(UPSERT).alias("kind"),
        "data",
        "given",
        "shown",
        "given_at",
        "start",
        "end",
        (F.col("is_shown") & ~F.col("is_kept")).alias("is_added"),
        F.when(~F.col("is_kept"), F.col("stored.row")).alias("removed"),
        (is_needed & ~is_known).alias("is_remembered"),
        forget.alias("forget"),
        "is_damaged",
    ).where("is_added OR removed IS NOT NULL OR is_remembered OR size(forget) > 0 OR is_damaged")
