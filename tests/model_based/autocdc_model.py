"""AutoCDC as a pure function: from the set of all events ever seen to the rows that the target must show.

This is the contract in plain Python, sentence by sentence. It knows nothing of arrival order, batches or storage.
`autocdc_simulation` reaches the same rows in small steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

Key = tuple[Any, ...]
"""The values of the key columns; empty for a truncate, which concerns every key."""
Values = tuple[Any, ...]
"""The data columns, in the order of `Flow.columns`."""


class Kind(StrEnum):
    """What an event does to its key."""

    UPSERT = "upsert"
    DELETE = "delete"
    TRUNCATE = "truncate"


@dataclass(frozen=True, slots=True)
class Event:
    """One source row. The sequence is any orderable value, a tuple too."""

    key: Key
    sequence: Any
    kind: Kind
    values: Values = ()


def upsert(key: Any, sequence: Any, *values: Any) -> Event:
    return Event(key if isinstance(key, tuple) else (key,), sequence, Kind.UPSERT, values)


def delete(key: Any, sequence: Any) -> Event:
    return Event(key if isinstance(key, tuple) else (key,), sequence, Kind.DELETE)


def truncate(sequence: Any) -> Event:
    return Event((), sequence, Kind.TRUNCATE)


@dataclass(frozen=True, slots=True)
class Flow:
    """What a user declares: data columns, those whose history is tracked, those in which a NULL keeps the value before."""

    columns: tuple[str, ...]
    tracked: frozenset[str]
    ignore_null: frozenset[str] = frozenset()
    scd_type: int = 2

    @property
    def ignores_nulls(self) -> bool:
        return bool(self.ignore_null)

    def tracked_values(self, values: Values) -> Values:
        """The part of the values in which a change begins a new row."""
        return tuple(value for column, value in zip(self.columns, values, strict=True) if column in self.tracked)

    def is_given(self, column: str, value: Any) -> bool:
        """Whether an upsert says something about the column; a NULL does not where nulls are ignored."""
        return value is not None or column not in self.ignore_null

    def given(self, values: Values) -> frozenset[str]:
        """The mask of an upsert: the columns about which it says something."""
        return frozenset(c for c, value in zip(self.columns, values, strict=True) if self.is_given(c, value))


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive upserts with equal tracked columns and no delete between."""

    events: tuple[Event, ...]
    values: Values
    """Those of the last event; with ignored nulls filled from the events before it."""
    end: Any

    @property
    def start(self) -> Any:
        return self.events[0].sequence

    @property
    def last(self) -> Event:
        return self.events[-1]


@dataclass(frozen=True, slots=True)
class Scd2Row:
    """A row of an SCD2 target as a user sees it."""

    key: Key
    values: Values
    start: Any
    end: Any


@dataclass(frozen=True, slots=True)
class Scd1Row:
    """A row of an SCD1 target as a user sees it."""

    key: Key
    values: Values


def scd2_rows(flow: Flow, events: Iterable[Event]) -> frozenset[Scd2Row]:
    """Each run of each key is one row."""
    return frozenset(
        Scd2Row(key, run.values, run.start, run.end)
        for key, of_key in split_by_key(events).items()
        for run in cut_runs(flow, collapse(flow, of_key))
    )


def scd1_rows(flow: Flow, events: Iterable[Event]) -> frozenset[Scd1Row]:
    """The event with the highest sequence decides: an upsert is the row, after a delete there is none."""
    histories = {key: collapse(flow, of_key) for key, of_key in split_by_key(events).items()}
    return frozenset(
        Scd1Row(key, fill_nulls(flow, history)[-1].values)
        for key, history in histories.items()
        if history[-1].kind is Kind.UPSERT
    )


def split_by_key(events: Iterable[Event]) -> dict[Key, set[Event]]:
    """The events of each key; a truncate is a delete of every key, seen before it or after it."""
    events = list(events)
    truncates = [event.sequence for event in events if event.kind is Kind.TRUNCATE]
    keys = {event.key for event in events if event.kind is not Kind.TRUNCATE}
    found = {key: {delete(key, sequence) for sequence in truncates} for key in keys}
    for event in events:
        if event.kind is not Kind.TRUNCATE:
            found[event.key].add(event)
    return found


def collapse(flow: Flow, events: Iterable[Event]) -> list[Event]:
    """The events of one key in order, one for each sequence."""
    rivals: dict[Any, list[Event]] = defaultdict(list)
    for event in events:
        rivals[event.sequence].append(event)
    return [settle_tie(flow, rivals[sequence]) for sequence in sorted(rivals)]


def settle_tie(flow: Flow, rivals: Sequence[Event]) -> Event:
    """Of events with equal sequence: delete beats upsert; among upserts the greatest content wins.

    Where nulls are ignored, an upsert may say nothing about a column about which its rival says something. There the
    greatest value wins in each column by itself: a sequence per column, all that SCD1 keeps, cannot tell more.
    """
    for event in rivals:
        if event.kind is Kind.DELETE:
            return event
    if flow.ignores_nulls:
        columns = zip(*(event.values for event in rivals), strict=True)
        return replace(rivals[0], values=tuple(max(column, key=order_of_value) for column in columns))
    return max(rivals, key=lambda event: [order_of_value(value) for value in event.values])


def order_of_value(value: Any) -> tuple[Any, ...]:
    """Values of one column compare as their type does (9 < 10, "10" < "9"), and NULL is below all of them."""
    return () if value is None else (value,)


def fill_nulls(flow: Flow, history: Sequence[Event]) -> list[Event]:
    """A NULL in an ignored column keeps the value before it, by sequence; after a delete there is none to keep."""
    filled: list[Event] = []
    for event in history:
        before = filled[-1] if filled else None
        if flow.ignores_nulls and event.kind is Kind.UPSERT and before and before.kind is Kind.UPSERT:
            triples = zip(flow.columns, event.values, before.values, strict=True)
            event = replace(event, values=tuple(v if flow.is_given(c, v) else old for c, v, old in triples))  # noqa: PLW2901
        filled.append(event)
    return filled


def cut_runs(flow: Flow, history: Sequence[Event]) -> list[Run]:
    """Cut the history of one key at each delete and each tracked change; deletes make no run."""
    filled = fill_nulls(flow, history)
    runs: list[Run] = []
    first = 0
    for index, event in enumerate(filled):
        following = filled[index + 1] if index + 1 < len(filled) else None
        if event.kind is Kind.UPSERT and following is not None and continues_run(flow, event, following):
            continue
        if event.kind is Kind.UPSERT:
            end = following.sequence if following is not None else None
            runs.append(Run(tuple(history[first : index + 1]), event.values, end))
        first = index + 1
    return runs


def continues_run(flow: Flow, event: Event, following: Event) -> bool:
    """Whether the next event is an upsert that changes no tracked column."""
    if following.kind is not Kind.UPSERT:
        return False
    return flow.tracked_values(event.values) == flow.tracked_values(following.values)


def remembered(flow: Flow, events: Iterable[Event]) -> frozenset[Event]:
    """What the target cannot express, so that the auxiliary table must hold it; nothing else needs to stay there."""
    events = list(events)
    truncates = {event for event in events if event.kind is Kind.TRUNCATE}
    if flow.scd_type == 1 and truncates:
        truncates = {max(truncates, key=lambda event: event.sequence)}
    expressed = {event.sequence for event in truncates}
    found = set(truncates)
    for of_key in split_by_key(events).values():
        history = collapse(flow, of_key)
        kept = keep_scd1(flow, history) if flow.scd_type == 1 else keep_scd2(history, cut_runs(flow, history))
        found |= {event for event in kept if event.kind is Kind.UPSERT or event.sequence not in expressed}
    return frozenset(found)


def keep_scd2(history: Sequence[Event], runs: Sequence[Run]) -> set[Event]:
    """Hidden events, every member of a run but the last, and standalone tombstones, deletes at which no row ends."""
    hidden = {event for run in runs for event in run.events[:-1]}
    ends = {run.end for run in runs}
    return hidden | {event for event in history if event.kind is Kind.DELETE and event.sequence not in ends}


def keep_scd1(flow: Flow, history: Sequence[Event]) -> set[Event]:
    """The last delete, while no row stands above it; where nulls are ignored, beneath a row too.

    For there a late upsert older than the delete could still fill a column about which the row's events say nothing.
    """
    last_delete = next((event for event in reversed(history) if event.kind is Kind.DELETE), None)
    has_row = history[-1].kind is Kind.UPSERT
    return set() if last_delete is None or (has_row and not flow.ignores_nulls) else {last_delete}
