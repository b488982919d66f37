"""A small batch on the driver: what it affects is read and replayed here, as ranks, without planning a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kinds.cdc import key_replay as change_replay
from penstock.kinds.cdc.auxiliary import align
from penstock.kinds.cdc.key_replay import Delete, KeyChange, KeyEvents, Row, Upsert
from penstock.lake.few_rows import FewRows, is_one_of, is_open_or_from
from penstock.model.changes import END_AT, RESERVED, START_AT, Flow
from penstock.transforms.change_events import DELETE, TRUNCATE, UPSERT


def can_replay(flow: Flow) -> bool:
    """Whether all values of the flow can be ranked here as Spark orders them."""
    types = [*(column.type for column in flow.columns), flow.sequence_type]
    return not flow.is_partial and not any("<" in type_ for type_ in types)


def find_rows(
    flow: Flow, stored: FewRows, names: Sequence[str], events: pa.Table, first: str | None, most: int
) -> pa.Table | None:
    """The stored rows that events may affect, and perhaps more, with values in the events' types; None when too many.

    `names` are the target's columns, `first` is the smallest sequence of the events.
    """
    present = {name.lower(): name for name in names}
    keys = _whole(events, "key")
    conditions = [
        is_one_of(present[column.key], column.type, pc.unique(keys.field(index).drop_null()))
        for index, column in enumerate(flow.key_columns)
    ]
    if not any(conditions):
        return None
    times = [START_AT, END_AT] if flow.keeps_history else []
    if flow.keeps_history and first is not None:
        conditions.append(is_open_or_from(END_AT, flow.sequence_type, first))
    columns = [present[column.key] for column in flow.columns if column.key in present]
    found = stored.read([*dict.fromkeys([*columns, *times, RESERVED])], filter(None, conditions), most)
    return _to_rows(found, events.schema, present) if found is not None else None


def _to_rows(found: pa.Table, like: pa.Schema, present: Mapping[str, str]) -> pa.Table:
    """Stored rows as `find_affected` gives them."""

    def values(field: pa.Field) -> pa.Array:
        name = present.get(field.name.lower())
        return align(_whole(found, name), field.type) if name is not None else pa.nulls(found.num_rows, field.type)

    def struct(name: str) -> pa.Array:
        fields = list(like.field(name).type)
        return pa.StructArray.from_arrays([values(field) for field in fields], fields=fields)

    reserved = _whole(found, RESERVED)
    sequence = like.field("sequence").type
    times = {"start": START_AT, "end": END_AT} if START_AT in found.column_names else {}
    return pa.table(
        {
            "key": struct("key"),
            "data": struct("data"),
            "sequence": align(pc.struct_field(reserved, "sequence"), sequence),
            "row": pc.struct_field(reserved, "row"),
            **{name: align(_whole(found, column), sequence) for name, column in times.items()},
        }
    )


@dataclass(frozen=True, slots=True)
class Found:
    """New events, and what was found of the stored ones; each with `key` and `data` as structs."""

    new_events: pa.Table
    rows: pa.Table
    """Rows of the target that the events affect, and perhaps others."""
    copies: pa.Table | None
    """Events of the auxiliary table, of other keys too."""


def replay_small(flow: Flow, found: Found) -> pa.Table:
    """The difference that a batch makes, as the transforms give it."""
    ranked = _Ranked(flow, found)
    replay = change_replay.replay_scd2 if flow.keeps_history else change_replay.replay_scd1
    output = _Output(ranked)
    for number, key in ranked.by_key().items():
        first = ranked.first[number]
        truncates = frozenset(at for at in ranked.truncates if not flow.keeps_history or at >= first)
        output.add(number, replay(key, ranked.contents, ranked.tracked, truncates))
    return output.to_table()


class _Ranked:
    """All events side by side: new ones, stored rows, copies; with keys, sequences and values as whole numbers."""

    def __init__(self, flow: Flow, found: Found) -> None:
        self.flow = flow
        self.rows = found.rows
        parts = [found.new_events, found.rows, *([found.copies] if found.copies is not None else [])]
        self.offsets = [0, found.new_events.num_rows, found.new_events.num_rows + found.rows.num_rows]
        self.total = sum(part.num_rows for part in parts)
        self.keys = _stack(parts, "key")
        self.data = _stack(parts, "data")
        self.kinds = _stack([part for part in parts if part is not found.rows], "kind").to_pylist()
        times = [_stack(parts, "sequence")]
        if flow.keeps_history:
            times += [_whole(found.rows, name) for name in ("start", "end")]
        self.times = pa.concat_arrays([time.cast(times[0].type) for time in times])
        self.time_ranks = _rank(self.times)
        columns = {field.name: self.data.field(i) for i, field in enumerate(self.data.type)}
        by_name = sorted(columns, key=str.lower)  # so that ties do not depend on the order of the target's columns
        ranks = {name: _rank(columns[name]).tolist() for name in by_name}
        signs = [_zero_signs(columns[name]) for name in by_name if pa.types.is_floating(columns[name].type)]
        self.contents: list[tuple[int, ...]] = list(zip(*ranks.values(), *signs, strict=True))
        tracked = [ranks[name] for name in flow.tracked]
        self.tracked = list(zip(*tracked, strict=True)) if tracked else [()] * len(self.contents)
        self.key_numbers = _number_keys(self.keys)
        self.write_ids = _whole(found.copies, "attempt") if found.copies is not None else None
        self.copy_offset = self.offsets[2]
        self.truncates: set[int] = set()
        self.first: dict[int, int] = {}

    def by_key(self) -> dict[int, KeyEvents]:
        """The events of the batch's keys; without those of other keys that were read with them."""
        keys: dict[int, KeyEvents] = {}
        ranks = self.time_ranks.tolist()
        _, rows_from, copies_from = self.offsets
        for place in range(rows_from):
            number, kind, at = self.key_numbers[place], self.kinds[place], ranks[place]
            self.first[number] = min(at, self.first.get(number, at))
            _sort_in(keys.setdefault(number, KeyEvents()), kind, at, place, None)
        total = self.total
        for index in range(self.rows.num_rows):
            place = rows_from + index
            at = ranks[place]
            start, end = at, None
            if self.flow.keeps_history:
                start, end = ranks[total + index], ranks[total + self.rows.num_rows + index]
            number = self.key_numbers[place]
            if number in keys and (not end or end >= self.first[number]):
                keys[number].rows.append(Row(start, end or None, at, place))
        for index in range(total - copies_from):
            place = copies_from + index
            kind, at, number = self.kinds[rows_from + index], ranks[place], self.key_numbers[place]
            if kind == TRUNCATE:
                self.truncates.add(at)
            elif number in keys and (kind == UPSERT or not self.flow.keeps_history or at >= self.first[number]):
                _sort_in(keys[number], kind, at, place, index)
        return keys


def _sort_in(key: KeyEvents, kind: int, at: int, place: int, copy: int | None) -> None:
    if kind == UPSERT:
        key.upserts.append(Upsert(at, place, copy))
    elif kind == DELETE:
        key.deletes.append(Delete(at, copy))


class _Output:
    """Collects the differences of all keys as places in the ranked tables, and reads the values from there at the end."""

    def __init__(self, ranked: _Ranked) -> None:
        self._ranked = ranked
        self._lines: list[dict[str, Any]] = []
        self._place_of_key: dict[int, int] = {}
        for place, number in enumerate(ranked.key_numbers):
            self._place_of_key.setdefault(number, place)
        self._time_of: dict[int, int] = {}
        for place, rank in enumerate(ranked.time_ranks.tolist()):
            self._time_of.setdefault(rank, place)

    def add(self, number: int, change: KeyChange) -> None:
        key = self._place_of_key[number]
        for row in change.added:
            times = {"sequence": row.sequence, "start": row.start, "end": row.end}
            self._line(key, **times, kind=UPSERT, shown=row.place, is_added=True)
        for place in change.removed:
            self._line(key, kind=UPSERT, removed=place - self._ranked.offsets[1])
        for event in change.remembered:
            kind = DELETE if event.place is None else UPSERT
            self._line(key, sequence=event.sequence, kind=kind, data=event.place, is_remembered=True)
        for copy in change.forgotten:
            place = self._ranked.copy_offset + copy
            at = int(self._ranked.time_ranks[place])
            self._line(key, sequence=at, kind=UPSERT, forget=copy)
        if change.is_damaged:
            self._line(key, kind=UPSERT, is_damaged=True)

    def _line(self, key: int, **values: Any) -> None:
        self._lines.append({"key": key, **values})

    def _places(self, name: str) -> pa.Array:
        return pa.array([line.get(name) for line in self._lines], pa.int64())

    def _flags(self, name: str) -> pa.Array:
        return pa.array([line.get(name, False) for line in self._lines], pa.bool_())

    def _times(self, name: str) -> pa.Array:
        places = [self._time_of.get(rank) if (rank := line.get(name)) else None for line in self._lines]
        return self._ranked.times.take(pa.array(places, pa.int64()))

    def to_table(self) -> pa.Table:
        ranked, count = self._ranked, len(self._lines)
        forget = [line.get("forget") for line in self._lines]
        write_ids = (
            ranked.write_ids.take(pa.array(forget, pa.int64())).to_pylist() if ranked.write_ids is not None else []
        )
        columns = {
            "key": ranked.keys.take(self._places("key")),
            "sequence": self._times("sequence"),
            "kind": pa.array([line["kind"] for line in self._lines], pa.int32()),
            "data": ranked.data.take(self._places("data")),
            "shown": ranked.data.take(self._places("shown")),
            "start": self._times("start"),
            "end": self._times("end"),
            "is_added": self._flags("is_added"),
            "removed": _whole(ranked.rows, "row").take(self._places("removed")),
            "is_remembered": self._flags("is_remembered"),
            "forget": pa.array(
                [[write_id] if write_id is not None else [] for write_id in write_ids or [None] * count],
                pa.list_(pa.int64()),
            ),
            "is_damaged": self._flags("is_damaged"),
        }
        nothing = pa.nulls(count, pa.list_(pa.string()))
        return pa.table({**columns, "silent": nothing, "filled": nothing})


def _stack(parts: Sequence[pa.Table], name: str) -> pa.Array:
    arrays = [_whole(part, name) for part in parts]
    type_ = _nullable(arrays[0].type)
    return pa.concat_arrays([array.cast(type_) for array in arrays])


def _nullable(type_: pa.DataType) -> pa.DataType:
    """The type with fields that may be NULL: where there is no event there are no values, whatever the source declares."""
    return pa.struct([field.with_nullable(True) for field in type_]) if pa.types.is_struct(type_) else type_


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _rank(values: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Whole numbers from 1 that compare as Spark compares the values, 0 for NULL: NaN is the greatest, -0.0 equals 0.0."""
    if pa.types.is_floating(values.type):
        values = _ordered_bits(values)
    ranks = pc.rank(values, tiebreaker="dense").to_numpy().astype(np.int64)
    return np.where(values.is_null().to_numpy(zero_copy_only=False), 0, ranks)


def _ordered_bits(values: pa.Array) -> pa.Array:
    missing = values.is_null()
    numbers = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy() + 0.0
    numbers = np.where(np.isnan(numbers), np.nan, numbers)
    bits = numbers.view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return pa.array(ordered, mask=missing.to_numpy(zero_copy_only=False))


def _zero_signs(values: pa.Array) -> list[int]:
    """What tells equal numbers apart: 0 for -0.0, and 1 for all others."""
    numbers = pc.fill_null(values.cast(pa.float64()), 1.0).to_numpy()
    signs: list[int] = np.where((numbers == 0) & np.signbit(numbers), 0, 1).tolist()
    return signs


def _number_keys(keys: pa.Array) -> list[int]:
    """The same number for equal keys."""
    columns: Iterable[list[int]] = [_rank(keys.field(index)).tolist() for index in range(keys.type.num_fields)]
    numbers: dict[tuple[int, ...], int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in zip(*columns, strict=True)]
