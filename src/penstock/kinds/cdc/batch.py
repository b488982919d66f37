"""A batch of change events: the rows of a source as change events, read once and checked before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from penstock.errors import ChangeFlowError
from penstock.kinds.cdc.expressions import check_condition, find_types
from penstock.kinds.cdc.flow import resolve_flow
from penstock.kinds.cdc.small_batch import can_replay
from penstock.lake.few_rows import is_text
from penstock.model.changes import Flow, FlowOptions
from penstock.model.progress import ConsumedFile
from penstock.model.schema import Column
from penstock.model.types import normal_type, quote_name
from penstock.transforms.change_events import DELETE, EVENT, TRUNCATE, UPSERT, Scope, to_change_events
from penstock.transforms.checksums import hash_row
from penstock.transforms.feeds import CHANGE, CORRUPT
from penstock.transforms.suppress import Screen

SMALL = 20_000
"""Batches of up to this many events are collected on the driver, and so is their difference."""
_SAMPLES = 5
_ENDLESS_MICROS, _ENDLESS_TEXT = 9_223_372_036_854_775_000, "+294247-01-10T04:00:54.775"
"""The last millisecond of timestamps, where DuckDB has `infinity`. Delta adds one to the greatest timestamp of a file when it
looks for rows: with such an `__END_AT` no query that compares it would run."""
_INEXACT = frozenset({"binary", "float", "double"})


@dataclass(frozen=True, slots=True, eq=False)
class ChangeBatch:
    """Rows of a change feed and how to read them as events."""

    frame: DataFrame
    options: FlowOptions
    sequence: SparkColumn
    is_delete: SparkColumn
    is_truncate: SparkColumn
    is_understood: SparkColumn | None = None
    """Whether the envelope's operation is known; without an envelope every row is."""
    unavailable: SparkColumn | None = None
    """The names of columns that a row leaves unspecified."""
    batch_id: str | None = None
    source: Mapping[str, Any] = field(default_factory=dict)
    """How far the feed is read once the batch is applied."""
    files: tuple[ConsumedFile, ...] = ()
    quarantine: bool = False
    screen: Screen | None = None
    """Recognizes the rows to leave out, because their key is suppressed."""

    @property
    def rows(self) -> DataFrame:
        """The rows without those of suppressed keys."""
        return self.screen.drop(self.frame) if self.screen else self.frame


def resolve_batch(batch: ChangeBatch) -> Flow:
    """The flow of a batch by its own columns; ChangeFlowError when an expression does not fit them."""
    given = {
        "sequence_by": batch.sequence,
        "apply_as_deletes": batch.is_delete,
        "apply_as_truncates": batch.is_truncate,
    }
    types = find_types(batch.frame, given)
    for name in ("apply_as_deletes", "apply_as_truncates"):
        check_condition(name, types[name])
    columns = [column for column in to_columns(batch.frame) if column.name not in {CHANGE, CORRUPT}]
    sequence_type = _normal_type("sequence_by", types["sequence_by"].simpleString())
    return resolve_flow(batch.options, columns, sequence_type, is_partial=batch.unavailable is not None)


def to_columns(frame: DataFrame) -> list[Column]:
    """The columns of a frame; ChangeFlowError for a type that no target can have."""
    return [
        Column(f.name, _normal_type(f"the column {f.name!r}", f.dataType.simpleString()), f.nullable)
        for f in frame.schema.fields
    ]


def _normal_type(what: str, type_: str) -> str:
    try:
        return normal_type(type_)
    except ValueError:
        raise ChangeFlowError(
            "column_type", f"{what} is of type {type_}, which a target cannot have", hint="cast it, or drop the column"
        ) from None


def to_events(flow: Flow, batch: ChangeBatch, selected: Sequence[str]) -> DataFrame:
    """The batch as events; with the kind NULL for an unknown operation, and `is_bad` for all that cannot be applied.

    The target may have columns that are in the source too, but not `selected`: these are not read from the source.
    """
    is_truncate, is_delete = (F.coalesce(c.cast("boolean"), F.lit(False)) for c in (batch.is_truncate, batch.is_delete))
    kind = F.when(is_truncate, TRUNCATE).when(is_delete, DELETE).otherwise(UPSERT)
    if batch.is_understood is not None:
        kind = F.when(batch.is_understood, kind)
    events = to_change_events(flow, batch.rows, selected, batch.sequence, kind, batch.unavailable)
    is_bad = has_null_key(flow) | F.col("sequence").isNull() | F.col("kind").isNull()
    is_bad |= is_endless(flow, F.col("sequence"))
    return events.withColumn("is_bad", is_bad)


def is_bad_row(flow: Flow, batch: ChangeBatch) -> SparkColumn:
    """Whether a row of the source cannot be applied."""
    is_truncate = F.coalesce(batch.is_truncate.cast("boolean"), F.lit(False))
    is_bad = _any_null(F.col(quote_name(key)) for key in flow.keys) & ~is_truncate
    is_bad |= batch.sequence.isNull() | is_endless(flow, batch.sequence)
    return is_bad | ~F.coalesce(batch.is_understood, F.lit(False)) if batch.is_understood is not None else is_bad


def is_endless(flow: Flow, sequence: SparkColumn) -> SparkColumn:
    """Whether a sequence is a time that no row may start or end at."""
    if not _has_times(flow):
        return F.lit(False)
    zone = "Z" if flow.sequence_type == "timestamp" else ""
    return F.coalesce(sequence >= F.lit(_ENDLESS_TEXT + zone).cast(flow.sequence_type), F.lit(False))


def _has_times(flow: Flow) -> bool:
    return flow.keeps_history and flow.sequence_type in {"timestamp", "timestamp_ntz"}


def read_samples(keys: DataFrame) -> tuple[dict[str, Any], ...]:
    """A few keys for an error; as texts where Python has no such values, as for the year 10000."""
    few = keys.limit(_SAMPLES)
    try:
        found = few.collect()
    except (ValueError, OverflowError):
        found = few.select(*(F.col(quote_name(name)).cast("string") for name in few.columns)).collect()
    return tuple(row.asDict() for row in found)


@dataclass(frozen=True, slots=True)
class Summary:
    """What one pass over a batch finds."""

    events: int
    bad: int
    """Rows that cannot be applied; one may have several problems."""
    null_keys: int
    null_sequences: int
    endless_sequences: int
    unknown_operations: int
    truncates: int
    digest: str | None
    first: str | None
    """The smallest sequence as text, where its text is exact."""
    suppressed: int = 0
    """Rows of the source that were left out because their key is suppressed."""

    @property
    def problems(self) -> str:
        counts = {
            "NULL in a key": self.null_keys,
            "a NULL sequence": self.null_sequences,
            "an infinite sequence": self.endless_sequences,
            "an unknown operation": self.unknown_operations,
        }
        return ", ".join(f"{count} with {what}" for what, count in counts.items() if count)


@dataclass(frozen=True, slots=True, eq=False)
class NewEvents:
    """New events, read once: as a table on the driver when they are few, kept by Spark otherwise."""

    source: DataFrame
    table: pa.Table | None
    summary: Summary

    @property
    def events(self) -> DataFrame:
        """All events, without reading the source again."""
        if self.table is None:
            return self.source
        return self.source.sparkSession.createDataFrame(self.table, self.source.schema)

    @property
    def digest(self) -> str:
        """A digest that distinguishes this batch from another one with the same id; the order of rows does not matter."""
        if self.table is None:
            return str(self.summary.digest)
        lines = sorted(map(repr, _as_numbers(self.table).to_pylist()))
        return blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()

    @property
    def new_events(self) -> DataFrame:
        """The events that can be applied."""
        return (self.events.where("NOT is_bad") if self.summary.bad else self.events).drop("is_bad")

    @property
    def is_small(self) -> bool:
        return self.summary.events <= SMALL and not self.summary.truncates

    def scope(self, flow: Flow) -> Scope:
        """The scope of stored rows and events that the batch affects."""
        is_timeless = flow.is_partial or not flow.keeps_history
        first = self.summary.first
        literal = to_literal(flow, first) if first is not None and not is_timeless else None
        return Scope(self.new_events, is_timeless, literal, bool(self.summary.truncates), self.is_small)


@contextmanager
def read_batch(flow: Flow, batch: ChangeBatch, selected: Sequence[str]) -> Iterator[NewEvents]:
    """Read new events once, as `to_events` gives them, and check them; they are cached until the block ends."""
    if can_replay(flow):
        observed, count_suppressed = _observe(batch)
        events = to_events(flow, observed, selected)
        table = events.limit(SMALL + 1).toArrow()
        summary = look_at_table(flow, table)
        if summary.events <= SMALL and not summary.truncates:
            yield NewEvents(events, table, replace(summary, suppressed=count_suppressed(summary.events)))
            return
    observed, count_suppressed = _observe(batch)  # again: a limit may have stopped the first reading
    kept = to_events(flow, observed, selected).persist()
    try:
        summary = look_at_frame(flow, kept)
        yield NewEvents(kept, None, replace(summary, suppressed=count_suppressed(summary.events)))
    finally:
        kept.unpersist()


def _observe(batch: ChangeBatch) -> tuple[ChangeBatch, Callable[[int], int]]:
    """The batch; and how many of its rows are left out, to be asked with the number of the others once all were read.

    Rows are counted as they are read, so that this takes no job. Where no key is suppressed, nothing is counted.
    """
    if not batch.screen:
        return batch, lambda _: 0
    seen = Observation()
    frame = batch.frame.observe(seen, F.count(F.lit(1)).alias("rows"))
    return replace(batch, frame=frame), lambda others: int(seen.get["rows"]) - others


def look_at_table(flow: Flow, table: pa.Table) -> Summary:
    """Count bad rows in a table of events, and find what the search can be limited to."""
    keys = table.column("key").combine_chunks()
    kinds = table.column("kind")
    is_truncate = pc.equal(pc.fill_null(kinds, UPSERT), TRUNCATE)
    null_key = reduce(pc.or_, (pc.is_null(keys.field(index)) for index in range(keys.type.num_fields)))
    return Summary(
        events=table.num_rows,
        bad=_sum(table.column("is_bad")),
        null_keys=_sum(pc.and_not(null_key, is_truncate.combine_chunks())),
        null_sequences=table.column("sequence").null_count,
        endless_sequences=_count_endless(table.column("sequence")) if _has_times(flow) else 0,
        unknown_operations=kinds.null_count,
        truncates=_sum(pc.and_not(is_truncate, table.column("is_bad"))),
        digest=None,
        first=_first_of(flow, table.column("sequence")),
    )


def _count_endless(sequences: pa.ChunkedArray) -> int:
    return _sum(pc.greater_equal(sequences.cast(pa.int64()), _ENDLESS_MICROS))


def _first_of(flow: Flow, sequences: pa.ChunkedArray) -> str | None:
    first = pc.min(sequences)
    if not first.is_valid or flow.sequence_type in _INEXACT:
        return None
    try:
        text = str(first.as_py())
    except (OverflowError, ValueError):  # a year that Python does not have, or text that is not UTF-8
        return None
    return str(first.cast("int64").as_py()) if flow.sequence_type == "timestamp" else text


def _as_numbers(table: pa.Table) -> pa.Table:
    """The same with times as numbers, and text that is not UTF-8 as bytes: Python's own values cannot be all that Spark's are."""

    def plain(array: pa.Array) -> pa.Array:
        if pa.types.is_struct(array.type):
            names = [field.name for field in array.type]
            return pa.StructArray.from_arrays([plain(part) for part in array.flatten()], names, mask=array.is_null())
        if pa.types.is_date32(array.type):
            return array.cast(pa.int32())
        if pa.types.is_string(array.type) and not is_text(array):
            return array.cast(pa.binary())
        return array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array

    columns = [column.combine_chunks() for column in table.columns]
    return pa.table([plain(column) for column in columns], names=table.column_names)


def _sum(flags: Any) -> int:
    return int(pc.sum(flags).as_py() or 0)


def look_at_frame(flow: Flow, events: DataFrame) -> Summary:
    """The same by Spark, in one aggregation."""
    row = events.agg(
        F.count(F.lit(1)),
        F.count_if("is_bad"),
        F.count_if(has_null_key(flow)),
        F.count_if(F.col("sequence").isNull()),
        F.count_if(is_endless(flow, F.col("sequence"))),
        F.count_if(F.col("kind").isNull()),
        F.count_if((F.col("kind") == TRUNCATE) & ~F.col("is_bad")),
        F.coalesce(F.sum(hash_row(events.select(*EVENT)).cast("decimal(38,0)")), F.lit(0)).cast("string"),
        _exact_text(flow, F.min("sequence")),
    ).collect()[0]
    return Summary(*row)


def has_null_key(flow: Flow) -> SparkColumn:
    """Whether an event has NULL in its key; a truncate has none."""
    return _any_null(F.col("key")[key] for key in flow.keys) & (F.coalesce(F.col("kind"), F.lit(UPSERT)) != TRUNCATE)


def _any_null(columns: Iterable[SparkColumn]) -> SparkColumn:
    return reduce(lambda one, other: one | other, (column.isNull() for column in columns))


def _exact_text(flow: Flow, sequence: SparkColumn) -> SparkColumn:
    """The exact text of a sequence; microseconds for timestamps, whose text depends on the time zone; else NULL."""
    if "<" in flow.sequence_type or flow.sequence_type in _INEXACT:
        return F.lit(None).cast("string")
    text = (F.unix_micros(sequence) if flow.sequence_type == "timestamp" else sequence).cast("string")
    if flow.sequence_type in {"date", "timestamp", "timestamp_ntz"}:  # conditions on other years overflow in Spark
        return F.when(F.year(sequence).between(1, 9999), text)
    return F.when(F.is_valid_utf8(text), text)  # other bytes would arrive in Python as other text


def to_literal(flow: Flow, text: str) -> SparkColumn:
    """A sequence from its exact text."""
    is_instant = flow.sequence_type == "timestamp"
    return F.timestamp_micros(F.lit(int(text))) if is_instant else F.lit(text).cast(flow.sequence_type)
