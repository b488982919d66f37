"""SCD2 on stored rows: find what a batch affects, explode it to events, replay, diff. Pure; no storage here.

The target is the authority, the auxiliary table a plain set of events: no end or start is kept there, so none can be stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.model_based.autocdc_model import (
    Event,
    Flow,
    Key,
    Kind,
    Run,
    Scd2Row,
    Values,
    collapse,
    cut_runs,
    delete,
    keep_scd2,
)
from tests.model_based.autocdc_simulation import Change, KeyPart, split_by_key
from tests.model_based.autocdc_store import Copy


@dataclass(frozen=True, slots=True)
class StoredScd2Row:
    """A row of the target with its reserved columns."""

    key: Key
    values: Values
    start: Any
    end: Any
    sequence: Any
    """That of the event that gave the values: the row's own."""
    given: frozenset[str]
    """The mask of that event: the columns it gave itself, not by filling."""

    @property
    def shown(self) -> Scd2Row:
        return Scd2Row(self.key, self.values, self.start, self.end)


def reconcile_scd2(
    flow: Flow, rows: Iterable[StoredScd2Row], copies: Iterable[Copy], events: Sequence[Event]
) -> Change:
    """The change that new events make, key by key; truncates are remembered once for all keys."""
    copies = list(copies)
    known = {copy.event for copy in copies}
    change = Change(remember={event for event in events if event.kind is Kind.TRUNCATE and event not in known})
    for part in split_by_key(rows, copies, events):
        reconcile_key(flow, part, change)
    return change


def reconcile_key(flow: Flow, part: KeyPart, change: Change) -> None:
    """Find, explode, replay and diff for one key."""
    cutoff = find_cutoff(flow, part)
    affected = [row for row in part.rows if is_affected(row, cutoff)]
    counted = [copy for copy in part.copies if counts(copy, affected, cutoff)]
    truncates = {delete(part.key, sequence) for sequence in part.truncates if is_from(sequence, cutoff)}
    stored = explode(flow, affected) | {copy.event for copy in counted}
    history = collapse(flow, stored | truncates | set(part.events))
    runs = cut_runs(flow, history)

    after = {to_row(flow, part.key, run) for run in runs}
    change.removed |= set(affected) - after
    change.added |= after - set(affected)

    needed = {event for event in keep_scd2(history, runs) if not is_truncated(event, part.truncates)}
    change.remember |= needed - remembered_before(counted, affected, part.old_truncates)
    change.forget |= {copy for copy in counted if copy.event not in needed}


@dataclass(frozen=True, slots=True)
class Cutoff:
    """The smallest sequence that a batch has for a key, m; None when the whole history matters."""

    m: Any


def find_cutoff(flow: Flow, part: KeyPart) -> Cutoff:
    """m; a flow that ignores nulls reads everything, for a value may come from far before and reach far beyond."""
    if flow.ignores_nulls:
        return Cutoff(None)
    return Cutoff(min([*(event.sequence for event in part.events), *part.new_truncates]))


def is_from(sequence: Any, cutoff: Cutoff) -> bool:
    """Whether a sequence is m or later."""
    return cutoff.m is None or sequence >= cutoff.m


def is_affected(row: StoredScd2Row, cutoff: Cutoff) -> bool:
    """Whether a row may change, or tells what comes right before m: it is open, or ends at m or later."""
    return row.end is None or is_from(row.end, cutoff)


def counts(copy: Copy, affected: Sequence[StoredScd2Row], cutoff: Cutoff) -> bool:
    """An upsert counts if an affected row covers it, a delete from m on. All other copies wait for clean-up."""
    if copy.event.kind is Kind.DELETE:
        return is_from(copy.event.sequence, cutoff)
    return any(covers(row, copy.event) for row in affected)


def covers(row: StoredScd2Row, event: Event) -> bool:
    """Whether the event is a hidden member of the row's run; the row's own event is its last, and visible."""
    return bool(row.start <= event.sequence < row.sequence)


def explode(flow: Flow, rows: Sequence[StoredScd2Row]) -> set[Event]:
    """The events that rows stand for: an upsert each, and a delete at the end where no row starts."""
    starts = {row.start for row in rows}
    upserts = {Event(row.key, row.sequence, Kind.UPSERT, own_values(flow, row)) for row in rows}
    return upserts | {delete(row.key, row.end) for row in rows if row.end is not None and row.end not in starts}


def own_values(flow: Flow, row: StoredScd2Row) -> Values:
    """What the row's own event said, without what was filled in."""
    return tuple(v if column in row.given else None for column, v in zip(flow.columns, row.values, strict=True))


def to_row(flow: Flow, key: Key, run: Run) -> StoredScd2Row:
    return StoredScd2Row(key, run.values, run.start, run.end, run.last.sequence, flow.given(run.last.values))


def is_truncated(event: Event, truncates: frozenset[Any]) -> bool:
    """Whether a truncate says the same as this delete; then it needs no tombstone of its own."""
    return event.kind is Kind.DELETE and event.sequence in truncates


def remembered_before(
    counted: Sequence[Copy], affected: Sequence[StoredScd2Row], truncates: frozenset[Any]
) -> set[Event]:
    """What the auxiliary table holds for good, as seen from the target.

    A delete at which a row ends may still lie there, but it was given up, and a clean-up may take it at any moment.
    When it becomes standalone again it is added again, as is an upsert that was visible in between.
    """
    expressed = {row.end for row in affected} | set(truncates)
    return {c.event for c in counted if c.event.kind is Kind.UPSERT or c.event.sequence not in expressed}
