"""The difference that a batch makes to the stored rows: found by one query, materialized once, and written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from math import ceil, log2
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.kinds.cdc.auxiliary import Auxiliary, to_schema
from penstock.kinds.cdc.batch import SMALL, NewEvents
from penstock.kinds.cdc.progress import Segment
from penstock.kinds.cdc.small_batch import Found, find_rows, replay_small
from penstock.lake.few_rows import FewRows
from penstock.model.changes import END_AT, RESERVED, START_AT, Flow
from penstock.model.types import quote_name
from penstock.session.siblings import frame_of_few
from penstock.transforms import change_events as events_
from penstock.transforms.change_events import FORGET, TRUNCATE
from penstock.transforms.replay import Stored, replay

_MOST_ROWS = 200_000
"""The most stored rows that are replayed on the driver."""
_ROWS_PER_PARTITION = 200_000


@dataclass(slots=True)
class Difference:
    """The difference that a batch makes, computed already: a small one as a table on the driver, else cached by Spark."""

    flow: Flow
    found: DataFrame | pa.Table
    session: SparkSession
    write_id: int
    added: int
    removed: int
    remembered: int
    forgotten: int
    truncates: int
    is_damaged: bool

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to commit; forgetting can wait for the next batch."""
        return not (self.added or self.removed or self.remembered)

    def rows(self, number: int) -> DataFrame:
        """The rows to write to the target, numbered by the load that writes them."""
        flow = self.flow
        if not isinstance(self.found, DataFrame):
            rows = _to_target(flow, self.found, number)
            return frame_of_few(self.session, rows, target_schema(flow)).coalesce(1)
        added = self.found.where("is_added") if self.added else self.found.limit(0)
        partitions = max(1, ceil(self.added / _ROWS_PER_PARTITION))
        added = self._lay_out(added, partitions)
        filled = [F.col("filled")] if flow.is_partial else []
        reserved = F.struct(F.col("sequence"), _row_numbers(number, partitions).alias("row"), *filled)
        times = [F.col("start").alias(START_AT), F.col("end").alias(END_AT)] if flow.keeps_history else []
        return added.select("shown.*", *times, reserved.alias(RESERVED))

    def _lay_out(self, rows: DataFrame, partitions: int) -> DataFrame:
        """Few rows in one file; many in several, with open and closed rows in separate files and sorted by key."""
        if partitions == 1:
            return rows.coalesce(1)
        order = [F.col("end").isNull(), F.col("end")] if self.flow.keeps_history else []
        return rows.repartitionByRange(partitions, *order, "key")

    def removed_rows(self) -> DataFrame:
        """The numbers of the rows to remove from the target."""
        if isinstance(self.found, DataFrame):
            return self.found.where("removed IS NOT NULL").select("removed")
        return self.session.createDataFrame(self.found.select(["removed"]).drop_null())

    def removed_ids(self) -> list[int]:
        """The same as a list."""
        if isinstance(self.found, DataFrame):
            return [row[0] for row in self.removed_rows().collect()]
        ids: list[int] = self.found.column("removed").drop_null().to_pylist()
        return ids

    def write_segment(self, auxiliary: Auxiliary) -> Segment | None:
        """Write the events to store and to forget as a segment; nothing when there are none."""
        count = self.remembered + self.forgotten
        if not count:
            return None
        if not isinstance(self.found, DataFrame):
            return auxiliary.write_small(_to_segment(self.found, self.write_id), self.truncates)
        return auxiliary.write_large(self.segment_rows(), count, self.truncates)

    def segment_rows(self) -> DataFrame:
        """The rows of the segment: events to store, and events to forget by key, sequence and write id."""
        if not isinstance(self.found, DataFrame):
            return self.session.createDataFrame(_to_segment(self.found, self.write_id), to_schema(self.flow))
        columns = [F.col(name) for name in events_.EVENT]
        remembered = self.found.where("is_remembered").select(*columns, F.lit(self.write_id).alias("attempt"))
        if not self.forgotten:
            return remembered
        nothing = {name: F.lit(None).cast(self.found.schema[name].dataType).alias(name) for name in ("data", "silent")}
        forget = self.found.where("size(forget) > 0").select(
            "key", "sequence", F.lit(FORGET).alias("kind"), *nothing.values(), F.explode("forget").alias("attempt")
        )
        return remembered.unionByName(forget)


def target_schema(flow: Flow) -> str:
    """The columns of a target, as a Spark schema."""
    columns = [f"{quote_name(column.name)} {column.type}" for column in flow.columns]
    if flow.keeps_history:
        columns += [f"{name} {flow.sequence_type}" for name in (START_AT, END_AT)]
    filled = f", filled: {events_.filled_type(flow)}" if flow.is_partial else ""
    return ", ".join([*columns, f"{RESERVED} struct<sequence: {flow.sequence_type}, row: bigint{filled}>"])


@dataclass(frozen=True, slots=True, eq=False)
class AtHand:
    """What is stored of a target as the driver can read it, for batches that are replayed there."""

    copies: pa.Table | None = None
    """The auxiliary table, when it is small."""
    rows: FewRows | None = None


def _row_numbers(number: int, partitions: int) -> Column:
    """Unique row numbers: the high bits are the load number, the low bits the row within it; Spark counts 2^33 per partition."""
    bits = 32 - ceil(log2(partitions)) if partitions > 1 else 32
    place = F.monotonically_increasing_id()
    within = place.bitwiseAND(F.lit((1 << 33) - 1))
    checked = F.when(within < (1 << bits), within).otherwise(F.raise_error(F.lit("too many rows for one batch")))
    return F.lit(number << 32) + F.shiftleft(F.shiftright(place, 33), bits) + checked.cast("bigint")


@contextmanager
def find_difference(flow: Flow, stored: Stored, at_hand: AtHand, batch: NewEvents) -> Iterator[Difference]:
    """Find the difference that a batch makes, and cache it until the block ends."""
    write_id = uuid4().int >> 65
    if batch.is_small:
        table = _replay_here(flow, stored, at_hand, batch, batch.table) if batch.table is not None else None
        if table is None:
            table = replay(flow, stored, batch.scope(flow)).toArrow()
        yield Difference(flow, table, stored.target.sparkSession, write_id, *_count(table))
        return
    kept = replay(flow, stored, batch.scope(flow)).persist()
    try:
        yield Difference(flow, kept, kept.sparkSession, write_id, *_count(kept))
    finally:
        kept.unpersist()


def _replay_here(flow: Flow, stored: Stored, at_hand: AtHand, batch: NewEvents, table: pa.Table) -> pa.Table | None:
    """Find what the batch affects, and replay on the driver; None when too much is affected, so that Spark should."""
    rows = _find_here(flow, at_hand, stored.target.columns, batch, table)
    if rows is None:
        rows = events_.find_affected(flow, stored.target, batch.scope(flow)).limit(_MOST_ROWS + 1).toArrow()
    if rows.num_rows > _MOST_ROWS:
        return None
    if batch.summary.bad:
        table = table.filter(pc.invert(table.column("is_bad")))
    copies = at_hand.copies
    if copies is None and stored.auxiliary is not None:
        is_truncate = F.col("kind") == TRUNCATE
        found = events_.find_copies(stored.auxiliary, batch.scope(flow))
        copies = found.unionByName(stored.auxiliary.where(is_truncate)).toArrow()
    return replay_small(flow, Found(table, rows, copies))


def _find_here(flow: Flow, at_hand: AtHand, names: Sequence[str], batch: NewEvents, table: pa.Table) -> pa.Table | None:
    """Rows that the batch may affect, without Spark; None when that is not possible."""
    if at_hand.rows is None or not table.num_rows:
        return None
    return find_rows(flow, at_hand.rows, names, table, batch.summary.first, _MOST_ROWS)


def _count(found: pa.Table | DataFrame) -> tuple[int, int, int, int, int, bool]:
    """How many rows are added and removed, events stored and forgotten, truncates; and whether something is damaged."""
    if isinstance(found, DataFrame):
        row = found.agg(
            F.count_if("is_added"),
            F.count("removed"),
            F.count_if("is_remembered"),
            F.coalesce(F.sum(F.size("forget")), F.lit(0)),
            F.count_if((F.col("kind") == TRUNCATE) & F.col("is_remembered")),
            F.count_if("is_damaged"),
        ).collect()[0]
        return row[0], row[1], row[2], row[3], row[4], row[5] > 0

    def count(name: str) -> int:
        return int(pc.sum(found.column(name)).as_py() or 0)

    removed = found.num_rows - found.column("removed").null_count
    forgotten = int(pc.sum(pc.list_value_length(found.column("forget"))).as_py() or 0)
    return count("is_added"), removed, count("is_remembered"), forgotten, 0, count("is_damaged") > 0


def _to_target(flow: Flow, found: pa.Table, number: int) -> pa.Table:
    """The rows to write from a small difference, without Spark: Spark would compile a query for each load number."""
    added = found.filter(found.column("is_added")).combine_chunks()
    columns = dict(zip(flow.names, added.column("shown").combine_chunks().flatten(), strict=True))
    times = {START_AT: added.column("start"), END_AT: added.column("end")} if flow.keeps_history else {}
    place = pa.array(range(number << 32, (number << 32) + added.num_rows), pa.int64())
    reserved = {"sequence": added.column("sequence").combine_chunks(), "row": place}
    if flow.is_partial:
        reserved["filled"] = added.column("filled").combine_chunks()
    struct = pa.StructArray.from_arrays(list(reserved.values()), names=list(reserved))
    return pa.table({**columns, **times, RESERVED: struct})


def _to_segment(found: pa.Table, write_id: int) -> pa.Table:
    """A segment from a small difference, without Spark."""
    kept = found.filter(found.column("is_remembered")).select(list(events_.EVENT))
    kept = kept.append_column("attempt", pa.array([write_id] * kept.num_rows, pa.int64()))
    forget = found.column("forget").combine_chunks()
    write_ids = pc.list_flatten(forget)
    if not len(write_ids):
        return kept
    given_up = found.take(pc.list_parent_indices(forget)).select(list(events_.EVENT))
    count = len(write_ids)
    for name, values in {
        "kind": pa.array([FORGET] * count, pa.int32()),
        "data": pa.nulls(count, found.schema.field("data").type),
        "silent": pa.nulls(count, found.schema.field("silent").type),
    }.items():
        given_up = given_up.set_column(given_up.schema.get_field_index(name), name, values)
    given_up = given_up.append_column("attempt", write_ids.cast(pa.int64()))
    return pa.concat_tables([kept, given_up.cast(kept.schema)])


def merge_segments(
    auxiliary: Auxiliary, segments: Sequence[Segment], flow: Flow, difference: Difference
) -> tuple[Segment, ...]:
    """All segments and the new rows as one segment, without what was forgotten for certain."""
    stored = auxiliary.read(segments, flow)
    certain = [segment for segment in segments if segment.forgets]
    new = difference.segment_rows() if difference.remembered or difference.forgotten else stored.limit(0)
    rows = stored.unionByName(new)
    trusted = [new, *([auxiliary.read(certain, flow)] if certain else [])]
    identity = ["key", "sequence", "attempt"]
    given_up = [each.where(F.col("kind") == FORGET).select(*identity) for each in trusted]
    forgotten = reduce(DataFrame.unionByName, given_up).distinct()
    events = rows.where(F.col("kind") != FORGET).join(forgotten, identity, "left_anti")
    if not flow.keeps_history:  # only the last truncate matters
        latest = events.where(F.col("kind") == TRUNCATE).agg(F.max("sequence").alias("latest"))
        is_old = (F.col("kind") == TRUNCATE) & (F.col("sequence") < F.col("latest"))
        events = events.crossJoin(F.broadcast(latest)).where(~F.coalesce(is_old, F.lit(False))).drop("latest")
    known = sum(segment.rows for segment in segments) + difference.remembered
    truncates = sum(segment.truncates for segment in segments) + difference.truncates
    if known <= SMALL * 5:
        table = events.toArrow()
        return (auxiliary.write_small(table, truncates),) if table.num_rows else ()
    kept = events.persist()
    try:
        return (auxiliary.write_large(kept, kept.count(), truncates),)
    finally:
        kept.unpersist()
