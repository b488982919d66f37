"""The replay of small batches on the driver, against the model: thousands of histories, and no Spark.

A small store in memory does what `loads` does around it: it finds what a batch affects, turns sequences and contents into
ranks, and keeps what the replay says. Partial flows are not replayed on the driver, so no flow here ignores nulls.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from penstock.kinds.cdc.key_replay import (
    Added,
    Delete,
    KeyChange,
    KeyEvents,
    Remembered,
    Row,
    Upsert,
    replay_scd1,
    replay_scd2,
)
from tests.model_based.autocdc_histories import (
    COLUMNS,
    ORACLE,
    History,
    check_rows,
    cut_batches,
    random_event,
    random_history,
    show,
)
from tests.model_based.autocdc_model import (
    Event,
    Flow,
    Key,
    Kind,
    Scd1Row,
    Scd2Row,
    Values,
    delete,
    order_of_value,
    remembered,
    truncate,
    upsert,
)
from tests.model_based.test_autocdc_cases import CASES

REPLAY = {1: replay_scd1, 2: replay_scd2}


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row of the target; of an SCD1 target without start and end."""

    key: Key
    values: Values
    start: Any
    end: Any
    sequence: Any


@dataclass(eq=False, slots=True)
class Copy:
    """An event in the auxiliary table. A forgotten one may still lie there for a while."""

    event: Event
    is_forgotten: bool = False


@dataclass
class Ranks:
    """Sequences as whole numbers from 1, and values as tuples of ranks by place; NULL has the rank 0."""

    sequences: list[Any]
    values: list[Values]
    flow: Flow
    contents: list[tuple[int, ...]] = field(init=False)
    tracked: list[tuple[int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.sequences = sorted(set(self.sequences))
        columns = [sorted({order_of_value(row[i]) for row in self.values}) for i in range(len(self.flow.columns))]
        has_null = [bool(column) and column[0] == () for column in columns]
        ranks = [
            tuple(columns[i].index(order_of_value(value)) + (not has_null[i]) for i, value in enumerate(row))
            for row in self.values
        ]
        self.contents = ranks
        self.tracked = [self.flow.tracked_values(row) for row in ranks]

    def rank(self, sequence: Any) -> int:
        return self.sequences.index(sequence) + 1

    def sequence(self, rank: int | None) -> Any:
        return None if rank is None else self.sequences[rank - 1]


@dataclass
class Store:
    """A target and what is remembered beside it."""

    flow: Flow
    rows: set[StoredRow] = field(default_factory=set)
    copies: list[Copy] = field(default_factory=list)
    truncates: set[Any] = field(default_factory=set)

    def apply(self, events: Sequence[Event]) -> bool:
        """Apply a batch key by key; whether anything changed that would be committed."""
        new = {event.sequence for event in events if event.kind is Kind.TRUNCATE}
        of_keys: dict[Key, list[Event]] = {}
        for event in events:
            if event.kind is not Kind.TRUNCATE:
                of_keys.setdefault(event.key, []).append(event)
        keys = of_keys.keys() | ({row.key for row in self.rows} | {c.event.key for c in self.copies} if new else set())
        before, self.truncates = self.truncates, self.truncates | new
        has_changed = [self._apply_key(key, of_keys.get(key, []), new) for key in sorted(keys, key=repr)]
        if self.flow.scd_type == 1 and self.truncates:
            self.truncates = {max(self.truncates)}
        return any(has_changed) or self.truncates != before

    def _apply_key(self, key: Key, events: list[Event], new: set[Any]) -> bool:
        first = min([*(event.sequence for event in events), *new])
        keeps_history = self.flow.scd_type == 2
        rows = [row for row in self.rows if row.key == key and (row.end is None or row.end >= first)]
        copies = [copy for copy in self.copies if copy.event.key == key]
        copies = [c for c in copies if c.event.kind is Kind.UPSERT or not keeps_history or c.event.sequence >= first]
        truncates = {at for at in self.truncates if not keeps_history or at >= first}

        valued = [event for event in (*events, *(copy.event for copy in copies)) if event.kind is Kind.UPSERT]
        times = [event.sequence for event in (*events, *(copy.event for copy in copies))] + list(truncates)
        times += [at for row in rows for at in (row.start, row.end, row.sequence) if at is not None]
        ranks = Ranks(times, [row.values for row in rows] + [event.values for event in valued], self.flow)

        part = KeyEvents()
        for place, row in enumerate(rows):
            end = None if row.end is None else ranks.rank(row.end)
            start = ranks.rank(row.start if keeps_history else row.sequence)
            part.rows.append(Row(start, end, ranks.rank(row.sequence), place))
        place = len(rows)
        for event, copy in [*((event, None) for event in events), *((c.event, i) for i, c in enumerate(copies))]:
            if event.kind is Kind.UPSERT:
                part.upserts.append(Upsert(ranks.rank(event.sequence), place, copy))
                place += 1
            else:
                part.deletes.append(Delete(ranks.rank(event.sequence), copy))
        at = frozenset(map(ranks.rank, truncates))
        change = REPLAY[self.flow.scd_type](part, ranks.contents, ranks.tracked, at)
        return self._keep(key, change, ranks, rows, copies)

    def _keep(self, key: Key, change: KeyChange, ranks: Ranks, rows: list[StoredRow], copies: list[Copy]) -> bool:
        assert not change.is_damaged
        assert len(change.removed) == len(set(change.removed))
        removed = {rows[place] for place in change.removed}
        added = {self._to_row(key, row, ranks) for row in change.added}
        assert not removed & added, "a row that did not change is written again"
        assert not added & self.rows
        self.rows = self.rows - removed | added
        for index in change.forgotten:
            copies[index].is_forgotten = True
        self.copies += [Copy(self._to_event(key, event, ranks)) for event in change.remembered]
        return bool(removed or added or change.remembered)

    def _to_row(self, key: Key, row: Added, ranks: Ranks) -> StoredRow:
        start, end, sequence = map(ranks.sequence, (row.start, row.end, row.sequence))
        return StoredRow(key, ranks.values[row.place], start, end, sequence)

    def _to_event(self, key: Key, event: Remembered, ranks: Ranks) -> Event:
        if event.place is None:
            return delete(key, ranks.sequence(event.sequence))
        return upsert(key, ranks.sequence(event.sequence), *ranks.values[event.place])

    def clean_up(self) -> None:
        """Drop what was forgotten, as merging segments does."""
        self.copies = [copy for copy in self.copies if not copy.is_forgotten]

    def shown(self) -> frozenset[Any]:
        if self.flow.scd_type == 1:
            return frozenset(Scd1Row(row.key, row.values) for row in self.rows)
        return frozenset(Scd2Row(row.key, row.values, row.start, row.end) for row in self.rows)

    def remembered(self) -> list[Event]:
        """What would be left after a clean-up."""
        return [*(c.event for c in self.copies if not c.is_forgotten), *(truncate(at) for at in self.truncates)]

    def check(self, events: Iterable[Event]) -> None:
        """The target shows what the oracle says, and what is remembered is exactly what must be, once."""
        events = list(events)
        shown = self.shown()
        assert len(shown) == len(self.rows), "two stored rows that look the same"
        assert shown == ORACLE[self.flow.scd_type](self.flow, events)
        if self.flow.scd_type == 2:
            check_rows(shown)
        kept = self.remembered()
        assert len(kept) == len(set(kept)), "two copies of one event"
        assert set(kept) == remembered(self.flow, events)


def live(history: History, chance: random.Random) -> None:
    """Apply batch after batch, clean up now and then, and deliver old events again: they change nothing."""
    store, delivered = Store(history.flow), list[Event]()
    for batch in history.batches:
        store.apply(batch.events)
        delivered += batch.events
        store.check(delivered)
        if chance.random() < 0.3:
            store.clean_up()
        if chance.random() < 0.3:
            assert not store.apply(chance.choices(delivered, k=chance.randint(1, len(delivered))))
            store.check(delivered)


def live_through(seeds: range) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        history = random_history(chance)
        history = replace(history, flow=replace(history.flow, ignore_null=frozenset()))
        try:
            live(history, chance)
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{show(history)}\n{error!r}") from error


def test_the_driver_and_the_model_agree() -> None:
    live_through(range(4_000))


@pytest.mark.deep
@pytest.mark.timeout(3_600)
def test_the_driver_and_the_model_agree_in_100_000_histories() -> None:
    live_through(range(1_000_000, 1_100_000))


def test_long_histories_of_one_key() -> None:
    """Many late events inside one another: runs are cut and joined again and again."""
    for seed in range(60):
        chance = random.Random(seed)
        flow = Flow(COLUMNS, frozenset(chance.choice((COLUMNS, ("a",), ()))), scd_type=chance.choice((1, 2, 2)))
        events = [random_event(chance, ("k",), chance.randrange(60), 0.02) for _ in range(80)]
        live(History(flow, tuple(cut_batches(chance, events))), chance)


_EVENTS = st.one_of(
    st.builds(upsert, st.sampled_from("kl"), st.integers(0, 7), st.sampled_from((None, 1, 2)), st.sampled_from("xy")),
    st.builds(delete, st.sampled_from("kl"), st.integers(0, 7)),
    st.builds(truncate, st.integers(0, 7)),
)
_TRACKED = st.sets(st.sampled_from(COLUMNS)).map(frozenset)


@given(_TRACKED, st.sampled_from((1, 2)), st.lists(_EVENTS, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_any_order_and_any_cut(
    tracked: frozenset[str], scd_type: int, events: list[Event], chance: random.Random
) -> None:
    history = History(Flow(COLUMNS, tracked, scd_type=scd_type), tuple(cut_batches(chance, events)))
    note(show(history))
    live(history, chance)


@pytest.mark.parametrize("scd_type", [2, 1])
@pytest.mark.parametrize("case", [case for case in CASES if not case.flow.ignores_nulls], ids=lambda case: case.name)
def test_case(case: Any, scd_type: int) -> None:
    flow = replace(case.flow, scd_type=scd_type)
    one_by_one, at_once = Store(flow), Store(flow)
    for event in case.events:
        one_by_one.apply([event])
    at_once.apply(case.events)
    assert one_by_one.shown() == at_once.shown() == case.expected(scd_type)


def test_a_row_whose_first_event_is_nowhere_is_damage() -> None:
    store = Store(Flow(("a",), frozenset("a")))
    store.apply([upsert("k", 1, "A"), upsert("k", 3, "A")])
    store.copies.clear()
    with pytest.raises(AssertionError, match="is_damaged"):
        store.apply([upsert("k", 5, "B")])
