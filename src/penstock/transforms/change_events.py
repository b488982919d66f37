"""Change events as a frame, from all places where they are stored; and the one event of each key and sequence that counts.

A frame of events has the columns `key` and `data` (structs), `sequence`, `kind`, `silent` (columns that an event leaves
unspecified, for partial flows; see `says`), and for stored events where they come from: `stored`, and `attempt`, a write id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.model.changes import END_AT, RESERVED, START_AT, Flow
from penstock.model.schema import Column as DataColumn
from penstock.model.types import parse_type, quote_name
from penstock.transforms.conform import conform_field
from penstock.transforms.equality import canonical, comparable, fields_of, zero_signs

UPSERT, DELETE, TRUNCATE, FORGET = 0, 1, 2, 3
"""Kinds of events; FORGET is kept in the auxiliary table only: the copy with this write id is no longer needed."""
_STARTS, _ENDS = 4, 5
"""Not events, but facts about stored rows for the replay: one starts here, one ends here."""

EVENT = ("key", "sequence", "kind", "data", "silent")
_NAMES = "array<string>"


def to_change_events(
    flow: Flow,
    frame: DataFrame,
    selected: Sequence[str],
    sequence: Column,
    kind: Column,
    unavailable: Column | None,
) -> DataFrame:
    """The rows of a source as events; the columns of the flow that are not selected from the source are NULL.

    Equal keys and sequences have one form. Everything may be NULL, whatever the source declares: a delete has no data.
    """
    present = {name.lower(): name for name in selected}
    fields = [field for field in frame.schema.fields if field.name.lower() in present]
    values = {column.name: conform_field(fields, column.name, column.type) for column in flow.columns}
    keys = {c.name: canonical(values[c.name], parse_type(c.type)).alias(c.name) for c in flow.key_columns}
    events = frame.select(
        F.struct(*keys.values()).cast(_struct_of(flow.key_columns)).alias("key"),
        canonical(sequence.cast(flow.sequence_type), parse_type(flow.sequence_type)).alias("sequence"),
        kind.cast("int").alias("kind"),
        F.struct(*{**values, **keys}.values()).cast(_struct_of(flow.columns)).alias("data"),
        _silent(flow, present, unavailable).alias("silent"),
    )
    is_upsert = F.col("kind") == UPSERT
    return events.withColumns({name: F.when(is_upsert, F.col(name)) for name in ("data", "silent")})


def _struct_of(columns: Iterable[DataColumn]) -> str:
    return f"struct<{', '.join(f'{quote_name(column.name)}: {column.type}' for column in columns)}>"


def _silent(flow: Flow, present: dict[str, str], unavailable: Column | None) -> Column:
    """The names of the columns for which a source row has no value."""
    if unavailable is None:
        return F.lit(None).cast(_NAMES)
    missing = {
        column.name: F.array_contains(unavailable, present.get(column.key, column.name))
        for column in flow.columns
        if column.name not in flow.ignore_null
    }
    return _list([F.when(is_missing, F.lit(name)) for name, is_missing in missing.items()], _NAMES)


def says(flow: Flow, name: str) -> Column:
    """Whether an upsert specifies a column.

    A NULL where the flow ignores NULLs is unspecified, whenever the event arrived; so only other columns are listed, and
    an event from before a column was added means the same as if it arrived today.
    """
    is_said = ~F.coalesce(F.array_contains("silent", name), F.lit(False))
    return is_said & F.col("data")[name].isNotNull() if name in flow.ignore_null else is_said


def _list(items: list[Column], type_: str) -> Column:
    """The items that are not NULL as an array; NULL when there is none, so that "none" has only one form."""
    found = F.array_compact(F.array(*items)).cast(type_) if items else F.lit(None).cast(type_)
    return F.when(F.size(found) > 0, found)


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """Which stored rows and copies a batch can affect: those of its keys, from each key's first new event on.

    With a truncate it affects all keys, from its first event on. A timeless batch affects all sequences of its keys.
    """

    new_events: DataFrame
    is_timeless: bool
    first: Column | None
    """The smallest sequence of the batch as a literal, where there is one: so that whole files can be skipped."""
    is_for_all: bool
    is_small: bool = False
    """Few events: they are broadcast to every task, and one task replays them."""

    def limit(self, stored: DataFrame, is_from: Callable[[Column], Column]) -> DataFrame:
        """The stored events in scope; `is_from` says whether an event matters for a batch that begins at this sequence."""
        begin = F.col("its_sequence")
        if self.is_for_all:
            if self.is_timeless:
                return stored
            begins = F.broadcast(self.new_events.agg(F.min("sequence").alias("its_sequence")))
            return stored.crossJoin(begins).where(is_from(begin)).drop("its_sequence")
        batch = self.new_events.select(F.col("key").alias("its_key"), F.col("sequence").alias("its_sequence"))
        batch = F.broadcast(batch) if self.is_small else batch
        condition = F.col("key") == F.col("its_key")
        return stored.join(batch, condition if self.is_timeless else condition & is_from(begin), "left_semi")

    def first_of_keys(self, events: DataFrame) -> DataFrame:
        """The keys in scope, each with the first sequence that matters; NULL when all do."""
        if self.is_timeless:
            keys = events if self.is_for_all else self.new_events
            return (
                keys.select("key").distinct().withColumn("first", F.lit(None).cast(events.schema["sequence"].dataType))
            )
        if self.is_for_all:
            begins = F.broadcast(self.new_events.agg(F.min("sequence").alias("first")))
            return events.select("key").distinct().crossJoin(begins)
        return self.new_events.groupBy("key").agg(F.min("sequence").alias("first"))


def find_affected(flow: Flow, target: DataFrame, scope: Scope) -> DataFrame:
    """Rows of the target that a batch can change, or that show what comes before its first event of a key.

    Those in scope that are open, or end where the batch begins or later.
    """
    rows = target
    if scope.first is not None:
        rows = rows.where(F.col(END_AT).isNull() | (F.col(END_AT) >= scope.first))
    fields = target.schema.fields
    rows = rows.select(
        F.struct(*(conform_field(fields, column.name, column.type) for column in flow.key_columns)).alias("key"),
        F.struct(*(conform_field(fields, column.name, column.type) for column in flow.columns)).alias("data"),
        F.col(f"{RESERVED}.sequence").alias("sequence"),
        F.col(f"{RESERVED}.row").alias("row"),
        _stored_filled(flow, target).alias("filled"),
        *([F.col(START_AT).alias("start"), F.col(END_AT).alias("end")] if flow.keeps_history else []),
    )
    return scope.limit(rows, lambda begin: F.col("end").isNull() | (F.col("end") >= begin))


def find_copies(auxiliary: DataFrame, scope: Scope) -> DataFrame:
    """Copies in the auxiliary table that may count for a batch: upserts in scope, and deletes from its first event on."""
    copies = auxiliary.where(F.col("kind").isin(UPSERT, DELETE))
    return scope.limit(copies, lambda begin: (F.col("kind") == UPSERT) | (F.col("sequence") >= begin))


def _stored_filled(flow: Flow, target: DataFrame) -> Column:
    reserved = target.schema[RESERVED].dataType
    is_there = isinstance(reserved, T.StructType) and "filled" in reserved.fieldNames()
    return F.col(f"{RESERVED}.filled") if is_there else F.lit(None).cast(filled_type(flow))


def filled_type(flow: Flow) -> str:
    """What a row stores of the columns that its own event did not specify: their names, and for SCD1 the sequence of each."""
    return _NAMES if flow.keeps_history else f"array<struct<name:string,sequence:{flow.sequence_type}>>"


def explode_rows(flow: Flow, rows: DataFrame) -> DataFrame:
    """The events that stored rows represent. A row's values are those of its last event; the others are copies elsewhere."""
    return _explode_history(rows) if flow.keeps_history else _explode_current(flow, rows)


def _explode_history(rows: DataFrame) -> DataFrame:
    stored = F.struct("data", "filled", "start", "end", "row")
    own = _item(rows, "sequence", UPSERT, F.col("data"), F.col("filled"), stored)
    data, silent = (F.lit(None).cast(rows.schema[name].dataType) for name in ("data", "filled"))
    starts = _item(rows, "start", _STARTS, data, silent, F.when(F.lit(False), stored))
    ends = _item(rows, "end", _ENDS, data, silent, F.when(F.lit(False), stored))
    items = F.array(own, starts, ends)
    return rows.select("key", F.inline(F.filter(items, lambda item: item["sequence"].isNotNull())))


def _item(rows: DataFrame, at: str, kind: int, data: Column, silent: Column, stored: Column) -> Column:
    sequence = F.col(at).cast(rows.schema["sequence"].dataType).alias("sequence")
    parts = [sequence, F.lit(kind).alias("kind"), data.alias("data"), silent.alias("silent"), stored.alias("stored")]
    return F.struct(*parts)


def _explode_current(flow: Flow, rows: DataFrame) -> DataFrame:
    """A current row is one upsert; of a partial flow, one for each sequence at which some of its columns were specified."""
    stored = F.struct("data", "filled", "sequence", "row")
    if not flow.is_partial:
        silent = F.lit(None).cast(_NAMES).alias("silent")
        return rows.select("key", "sequence", F.lit(UPSERT).alias("kind"), "data", silent, stored.alias("stored"))
    earlier = F.array_distinct(F.array_compact("filled.sequence"))
    sequences = F.coalesce(F.array_append(earlier, F.col("sequence")), F.array("sequence"))
    exploded = rows.select("*", F.explode(sequences).alias("at"))
    is_own = F.col("at") == F.col("sequence")
    given_then = F.transform(F.filter("filled", lambda one: one["sequence"] == F.col("at")), lambda one: one["name"])
    all_names = F.array(*(F.lit(name) for name in flow.names))
    silent = F.when(is_own, F.col("filled.name")).otherwise(F.array_except(all_names, given_then))
    return exploded.select(
        "key",
        F.col("at").alias("sequence"),
        F.lit(UPSERT).alias("kind"),
        "data",
        silent.alias("silent"),
        F.when(is_own, stored).alias("stored"),
    )


def to_deletes(keys: DataFrame, truncates: DataFrame) -> DataFrame:
    """Truncates as deletes of these keys; a key has `first`, its first sequence that matters, or NULL when all do."""
    matters = F.col("first").isNull() | (F.col("at") >= F.col("first"))
    pairs = keys.crossJoin(F.broadcast(truncates.select(F.col("sequence").alias("at")).distinct())).where(matters)
    return pairs.select(
        "key", F.col("at").alias("sequence"), F.lit(DELETE).alias("kind"), F.lit(True).alias("truncated")
    )


def drop_uncovered(events: DataFrame) -> DataFrame:
    """Drop copies of upserts that no affected row covers: start <= sequence < the row's own sequence.

    Rows of a key do not overlap. So a sequence is covered when more rows have started there than have had their own event.
    """
    is_own = F.col("stored").isNotNull()
    step = F.when(F.col("kind") == _STARTS, 1).when(is_own, -1).otherwise(0)
    covering = F.sum(step).over(Window.partitionBy("key").orderBy("sequence"))
    is_copy = F.col("attempt").isNotNull() & (F.col("kind") == UPSERT)
    return events.withColumn("covering", covering).where(~is_copy | (F.col("covering") > 0))


def collapse(flow: Flow, events: DataFrame) -> DataFrame:
    """One row for each key and sequence: what happened there, and what is stored about it.

    A delete beats upserts; of upserts the greatest content wins, of a partial flow column by column. Where a stored row
    ends and none starts there was a delete. Where a row starts there was an upsert: if none is found, `is_damaged` is set.
    """
    kind = F.col("kind")
    deleted = F.max(kind == DELETE) | (F.max(kind == _ENDS) & ~F.max(kind == _STARTS))
    copy = F.struct("kind", F.coalesce(F.col("attempt"), F.lit(0)).alias("attempt"), "data", "silent")
    return (
        events.groupBy("key", "sequence")
        .agg(
            deleted.alias("is_delete"),
            F.max(kind == _ENDS).alias("was_end"),
            (F.max(kind == _STARTS) & ~F.max(kind == UPSERT)).alias("is_damaged"),
            F.max(F.coalesce(F.col("truncated"), F.lit(False))).alias("is_truncated"),
            *_settle_tie(flow, events),
            F.max_by("stored", F.col("stored.row")).alias("stored"),
            F.collect_list(F.when(F.col("attempt").isNotNull(), copy)).alias("copies"),
            F.max(kind < _STARTS).alias("is_event"),
        )
        .where("is_event OR is_delete OR is_damaged")
        .withColumns({name: F.when(~F.col("is_delete"), F.col(name)) for name in ("data", "silent")})
    )


def _settle_tie(flow: Flow, events: DataFrame) -> list[Column]:
    is_upsert = F.col("kind") == UPSERT
    type_ = events.schema["data"].dataType
    if not flow.is_partial:
        order = F.when(is_upsert, _order_of(F.col("data"), type_))
        return [F.max_by("data", order).alias("data"), F.lit(None).cast(_NAMES).alias("silent")]
    values, silent = [], []
    for field in fields_of(type_):
        value = F.col("data")[field.name]
        is_said = F.coalesce(is_upsert & says(flow, field.name), F.lit(False))
        order = F.when(is_said, _order_of(value, field.dataType))
        values.append(F.max_by(value, order).alias(field.name))
        if field.name not in flow.ignore_null:
            silent.append(F.when(~F.max(is_said), F.lit(field.name)))
    return [F.struct(*values).alias("data"), _list(silent, _NAMES).alias("silent")]


def _order_of(value: Column, type_: T.DataType) -> Column:
    signs = zero_signs(value, type_)
    return comparable(value, type_) if signs is None else F.struct(comparable(value, type_), signs)


def fill_silent(flow: Flow, collapsed: DataFrame) -> DataFrame:
    """Add `shown`: the values, where those that an event does not specify come from the events before it, up to a delete.

    And `filled`, the columns that the event itself did not specify, as a row stores them. Those that are NULL and would be
    unspecified anyway are not listed: so an event gives the same row whether a column was added before or after it.
    """
    if not flow.is_partial:
        return collapsed.withColumns({"shown": F.col("data"), "filled": F.lit(None).cast(filled_type(flow))})
    by_key = Window.partitionBy("key").orderBy("sequence")
    lived = collapsed.withColumn("life", F.sum(F.col("is_delete").cast("int")).over(by_key))
    life = Window.partitionBy("key", "life").orderBy("sequence")
    is_said = {name: ~F.col("is_delete") & says(flow, name) for name in flow.names}
    last = {
        name: F.last(F.when(said, F.struct(F.col("data")[name].alias("value"), "sequence")), ignorenulls=True).over(
            life
        )
        for name, said in is_said.items()
    }
    filled = lived.withColumn("last", F.struct(*(value.alias(name) for name, value in last.items())))
    shown = F.struct(*(F.col("last")[name]["value"].alias(name) for name in flow.names))
    entries = [_filled_entry(flow, name, said) for name, said in is_said.items()]
    upsert = ~F.col("is_delete")
    return filled.withColumns(
        {"shown": F.when(upsert, shown), "filled": F.when(upsert, _list(entries, filled_type(flow)))}
    ).drop("life", "last")


def _filled_entry(flow: Flow, name: str, is_said: Column) -> Column:
    last = F.col("last")[name]
    is_listed = ~is_said & last.isNotNull() if name in flow.ignore_null else ~is_said
    entry = (
        F.lit(name) if flow.keeps_history else F.struct(F.lit(name).alias("name"), last["sequence"].alias("sequence"))
    )
    return F.when(is_listed, entry)
