"""The last step of a replay, with or without history: what to write, remove, store in the auxiliary table, and forget."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.model.changes import Flow
from penstock.transforms.change_events import DELETE, UPSERT
from penstock.transforms.equality import is_same


def compare_with_stored(flow: Flow, cut: DataFrame, is_kept: Column) -> DataFrame:
    """Events that change something: `added` is the row to write, `removed` the number of the row to remove,
    `is_remembered` says to store the event in the auxiliary table, `forget` has the write ids of copies no longer needed."""
    is_needed = F.col("is_hidden") | F.col("is_lone")

    def is_useful(copy: Column) -> Column:
        """Whether a copy is what the auxiliary table must store at its sequence."""
        same = is_same(flow, copy["data"], F.col("data"), cut) & copy["silent"].eqNullSafe(F.col("silent"))
        hidden = (copy["kind"] == UPSERT) & F.col("is_hidden") & same
        return hidden | ((copy["kind"] == DELETE) & F.col("is_lone"))

    kept_copies = F.filter("copies", is_useful)
    forget = F.transform(F.filter("copies", lambda copy: ~is_useful(copy)), lambda copy: copy["attempt"])
    # A delete at which a row ended may still be in the auxiliary table, but it no longer counts.
    is_known = (F.size(kept_copies) > 0) & ~(F.col("is_delete") & F.col("was_end"))
    judged = cut.withColumn("is_kept", is_kept)
    return judged.select(
        "key",
        "sequence",
        F.when(F.col("is_delete"), DELETE).otherwise(UPSERT).alias("kind"),
        "data",
        "silent",
        "shown",
        "filled",
        "start",
        "end",
        (F.col("is_shown") & ~F.col("is_kept")).alias("is_added"),
        F.when(~F.col("is_kept"), F.col("stored.row")).alias("removed"),
        (is_needed & ~is_known).alias("is_remembered"),
        forget.alias("forget"),
        "is_damaged",
    ).where("is_added OR removed IS NOT NULL OR is_remembered OR size(forget) > 0 OR is_damaged")
