"""SCD1 on stored rows: the event with the highest sequence decides, for the row or, with ignored nulls, for each column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.model_based.autocdc_model import Event, Flow, Key, Kind, Scd1Row, Values, collapse, delete, keep_scd1
from tests.model_based.autocdc_simulation import Change, KeyPart, split_by_key
from tests.model_based.autocdc_store import Copy


@dataclass(frozen=True, slots=True)
class StoredScd1Row:
    """A row of the target with its reserved columns."""

    key: Key
    values: Values
    sequence: Any
    """That of the last upsert."""
    column_sequences: tuple[Any, ...]
    """For each column the sequence of the upsert that gave its value; None where none did."""

    @property
    def shown(self) -> Scd1Row:
        return Scd1Row(self.key, self.values)


def reconcile_scd1(
    flow: Flow, rows: Iterable[StoredScd1Row], copies: Iterable[Copy], events: Sequence[Event]
) -> Change:
    """The change that new events make, key by key; of the truncates only the last needs to be remembered."""
    copies = list(copies)
    change = remember_truncate(copies, events)
    for part in split_by_key(rows, copies, events):
        reconcile_key(flow, part, change)
    return change


def remember_truncate(copies: Sequence[Copy], events: Sequence[Event]) -> Change:
    old = [copy for copy in copies if copy.event.kind is Kind.TRUNCATE]
    truncates = {copy.event for copy in old} | {event for event in events if event.kind is Kind.TRUNCATE}
    needed = {max(truncates, key=lambda event: event.sequence)} if truncates else set()
    return Change(
        remember=needed - {copy.event for copy in old}, forget={copy for copy in old if copy.event not in needed}
    )


def reconcile_key(flow: Flow, part: KeyPart, change: Change) -> None:
    """Explode, replay and diff for one key."""
    stored = {event for row in part.rows for event in explode(flow, row)} | {copy.event for copy in part.copies}
    truncates = {delete(part.key, sequence) for sequence in part.truncates}
    history = collapse(flow, stored | truncates | set(part.events))

    before, after = set(part.rows), to_rows(flow, part.key, history)
    change.removed |= before - after
    change.added |= after - before

    needed = {event for event in keep_scd1(flow, history) if event.sequence not in part.truncates}
    change.remember |= needed - {copy.event for copy in part.copies}
    change.forget |= {copy for copy in part.copies if copy.event not in needed}


def explode(flow: Flow, row: StoredScd1Row) -> set[Event]:
    """The events that a row stands for: for each of its sequences an upsert that gave the columns with that sequence."""
    sequences = {row.sequence, *row.column_sequences} - {None}
    return {Event(row.key, sequence, Kind.UPSERT, values_at(row, sequence)) for sequence in sequences}


def values_at(row: StoredScd1Row, sequence: Any) -> Values:
    return tuple(v if given == sequence else None for v, given in zip(row.values, row.column_sequences, strict=True))


def to_rows(flow: Flow, key: Key, history: Sequence[Event]) -> set[StoredScd1Row]:
    """The one row of a key, or none: the upserts after the last delete, each column from the last that gave it."""
    values: list[Any] = [None] * len(flow.columns)
    sequences: list[Any] = [None] * len(flow.columns)
    if not history or history[-1].kind is Kind.DELETE:
        return set()
    for event in upserts_after_last_delete(history):
        for index, (column, value) in enumerate(zip(flow.columns, event.values, strict=True)):
            if flow.is_given(column, value):
                values[index], sequences[index] = value, event.sequence
    return {StoredScd1Row(key, tuple(values), history[-1].sequence, tuple(sequences))}


def upserts_after_last_delete(history: Sequence[Event]) -> Sequence[Event]:
    deletes = [index for index, event in enumerate(history) if event.kind is Kind.DELETE]
    return history[deletes[-1] + 1 :] if deletes else history
