"""AutoCDC in small steps equals the pure function of all events: in any order, cut, crash, race and repetition."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.model_based.autocdc_histories import (
    COLUMNS,
    CrashError,
    History,
    World,
    check_rows,
    cut_batches,
    finish,
    live_at_once,
    live_in_turn,
    random_habits,
    random_history,
    show,
)
from tests.model_based.autocdc_model import (
    Event,
    Flow,
    Kind,
    delete,
    order_of_value,
    scd1_rows,
    scd2_rows,
    split_by_key,
    truncate,
    upsert,
)
from tests.model_based.autocdc_simulation import BadBatchError, Batch, DamagedError, Habits
from tests.model_based.autocdc_store import Store

ALL = Flow(COLUMNS, frozenset(COLUMNS))

Live = Callable[[History, random.Random], None]


def live_through(seeds: range, live: Live) -> None:
    """Live through one history for each seed; a failure shows the history."""
    for seed in seeds:
        chance = random.Random(seed)
        history = random_history(chance)
        try:
            live(history, chance)
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{show(history)}\n{error!r}") from error


@pytest.mark.parametrize(("live", "first"), [(live_in_turn, 0), (live_at_once, 10_000)])
def test_the_target_is_right_after_every_commit(live: Live, first: int) -> None:
    live_through(range(first, first + 1_000), live)


@pytest.mark.deep
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("live", "first"), [(live_in_turn, 1_000_000), (live_at_once, 2_000_000)])
def test_the_target_is_right_in_100_000_histories(live: Live, first: int) -> None:
    live_through(range(first, first + 50_000), live)


_KEYS = st.sampled_from((("k",), ("l",)))
_SEQUENCES = st.integers(0, 7)
_EVENTS = st.one_of(
    st.builds(upsert, _KEYS, _SEQUENCES, st.sampled_from((None, 1, 2)), st.sampled_from((None, "x", "y"))),
    st.builds(delete, _KEYS, _SEQUENCES),
    st.builds(truncate, _SEQUENCES),
)
_COLUMN_SETS = st.sets(st.sampled_from(COLUMNS)).map(frozenset)
_FLOWS = st.builds(Flow, st.just(COLUMNS), _COLUMN_SETS, _COLUMN_SETS, st.sampled_from((1, 2)))
_CHANCE = st.randoms(use_true_random=False)


@given(_FLOWS, st.lists(_EVENTS, max_size=12), _CHANCE)
@settings(max_examples=100)
def test_any_order_and_any_cut_give_the_same_rows(flow: Flow, events: list[Event], chance: random.Random) -> None:
    history = History(flow, tuple(cut_batches(chance, events)))
    note(show(history))
    live_in_turn(history, chance)


@given(_FLOWS, st.lists(_EVENTS, max_size=12))
@settings(max_examples=200)
def test_the_oracle_shows_at_each_moment_the_event_that_ruled_then(flow: Flow, events: list[Event]) -> None:
    """A second definition of the rows, by looking at moments instead of runs."""
    rows = scd2_rows(flow, events)
    check_rows(rows)
    for key, of_key in split_by_key(events).items():
        for moment in range(8):
            covering = [r for r in rows if r.key == key and r.start <= moment and (r.end is None or moment < r.end)]
            ruling = [
                e for e in of_key if e.sequence == max((x.sequence for x in of_key if x.sequence <= moment), default=-1)
            ]
            exists = bool(ruling) and all(event.kind is Kind.UPSERT for event in ruling)
            assert len(covering) == exists
            if exists and not flow.ignores_nulls:
                winner = max(ruling, key=lambda event: [order_of_value(value) for value in event.values])
                assert flow.tracked_values(covering[0].values) == flow.tracked_values(winner.values)
    for row in rows:
        for other in rows:
            if other.key == row.key and other.start == row.end:
                assert flow.tracked_values(row.values) != flow.tracked_values(other.values), "a run was cut in two"


@given(_FLOWS, st.lists(_EVENTS, max_size=12))
@settings(max_examples=200)
def test_the_scd1_row_is_the_open_scd2_row(flow: Flow, events: list[Event]) -> None:
    opened = {(row.key, row.values) for row in scd2_rows(flow, events) if row.end is None}
    assert {(row.key, row.values) for row in scd1_rows(flow, events)} == opened


SPLIT = (
    Batch("first", (upsert("k", 1, 1, "x"), upsert("k", 5, 1, "x"), delete("l", 3), upsert("m", 2, 1, "y"))),
    Batch("second", (upsert("k", 3, 2, "x"), upsert("l", 1, 1, "x"), upsert("m", 4, 1, "y"), truncate(6))),
    Batch("third", (upsert("k", 3, 2, "y"), delete("l", 2), upsert("m", 3, 1, "y"), upsert("m", 7, 1, "y"))),
)
"""Batches that hide, show and hide again, with tombstones that are absorbed and stand alone again."""

MODES = (Flow(COLUMNS, frozenset(COLUMNS)), Flow(COLUMNS, frozenset("a"), frozenset("b")))
FLOWS = [Flow(f.columns, f.tracked, f.ignore_null, scd_type) for f in MODES for scd_type in (1, 2)]


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("at", range(12))
def test_a_crash_after_any_step_loses_and_doubles_nothing(flow: Flow, at: int) -> None:
    world = World(flow, Habits(longest_list=1, tidy_after=1))
    for batch in SPLIT:
        steps = world.deliver(batch)
        for index, _ in enumerate(steps):
            world.check()
            if index == at:
                with pytest.raises(CrashError):
                    steps.throw(CrashError())
        finish(world.deliver(batch))
        world.check()
    world.check_end(event for batch in SPLIT for event in batch.events)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("at", range(9))
def test_a_writer_that_sleeps_while_others_work_does_no_harm(flow: Flow, at: int) -> None:
    first, second, third = SPLIT
    world = World(flow, Habits(longest_list=1, tidy_after=1))
    finish(world.deliver(first))
    sleeper = world.deliver(second)
    for _ in zip(range(at), sleeper, strict=False):
        pass
    finish(world.deliver(third))
    world.check()
    finish(sleeper)
    world.check()
    world.check_end(event for batch in SPLIT for event in batch.events)


@pytest.mark.parametrize("flow", FLOWS)
def test_a_batch_that_was_applied_last_is_known_by_id_and_content(flow: Flow) -> None:
    world = World(flow)
    world.apply(upsert("k", 1, 1, "x"), batch_id="same")
    world.apply(upsert("k", 1, 1, "x"), batch_id="same")
    assert len(world.store.versions) == 2
    world.apply(upsert("k", 2, 2, "y"), batch_id="same")
    assert len(world.store.versions) == 3
    world.check_end((upsert("k", 1, 1, "x"), upsert("k", 2, 2, "y")))


def test_a_segment_that_was_merged_away_is_no_damage() -> None:
    """A writer read the list, then others merged and removed what it names: it starts again from the new list."""
    world = World(ALL, Habits(longest_list=1, tidy_after=1))
    world.apply(delete("k", 3))
    slow = world.deliver(Batch("slow", (upsert("k", 1, 1, "x"),)))
    next(slow)
    world.apply(delete("l", 3))
    finish(slow)
    world.check()
    world.check_end((delete("k", 3), upsert("k", 1, 1, "x"), delete("l", 3)))


def test_a_segment_that_is_gone_is_damage() -> None:
    world = World(ALL)
    world.apply(delete("k", 3))
    world.store.segments.clear()
    before = len(world.store.versions), dict(world.store.manifests)
    with pytest.raises(DamagedError):
        world.apply(upsert("k", 1, 1, "x"))
    assert (len(world.store.versions), world.store.manifests) == before


def test_a_dead_attempt_leaves_a_segment_that_nobody_reads_and_a_later_batch_removes() -> None:
    world = World(ALL, Habits(longest_list=4, tidy_after=1))
    dying = world.deliver(Batch("dying", (delete("k", 3),)))
    assert "wrote segment" in [next(dying) for _ in range(3)]
    dying.close()
    (left,) = world.store.segments
    world.apply(upsert("k", 1, 1, "x"))
    world.check_shown([upsert("k", 1, 1, "x")])
    assert left not in world.store.segments


@pytest.mark.parametrize("scd_type", [1, 2])
def test_events_in_order_never_touch_the_auxiliary_table(scd_type: int) -> None:
    world = World(Flow(COLUMNS, frozenset(COLUMNS), scd_type=scd_type))
    for number in range(10):
        world.apply(upsert("k", number, number, "x"), upsert(("l", 1), number, number, None))
    assert world.store.segments == {}


def changed_rows(store: Store) -> tuple[int, int]:
    """How many rows the last commit removed and added."""
    before, after = store.versions[-2].rows, store.versions[-1].rows
    return len(before - after), len(after - before)


LATE = {
    "inside a row": (upsert("k", 495, -1, "x"), (1, 2)),
    "inside a run": (upsert("k", 505, -1, "x"), (1, 3)),
    "equal inside a run": (upsert("k", 505, 50, "x"), (0, 0)),
    "delete inside a row": (delete("k", 495), (1, 1)),
    "delete inside a run": (delete("k", 505), (1, 2)),
    "delete of a row's only event": (delete("k", 490), (1, 0)),
    "truncate inside a run": (truncate(505), (1, 2)),
}
"""A late event, and how many rows it removes and adds. The row of 500 is a run with a second event at 508."""


@pytest.mark.parametrize("name", LATE)
def test_a_late_event_leaves_the_rest_of_a_long_history_alone(name: str) -> None:
    event, expected = LATE[name]
    world = World(ALL)
    world.apply(*(upsert("k", number * 10, number, "x") for number in range(100)), upsert("k", 508, 50, "x"))
    world.apply(event)
    world.check()
    assert changed_rows(world.store) == expected


@given(st.lists(_EVENTS, max_size=12), _EVENTS.filter(lambda event: event.kind is not Kind.TRUNCATE))
@settings(max_examples=200)
def test_one_event_changes_its_neighbours_at_most(events: list[Event], event: Event) -> None:
    world = World(ALL)
    world.apply(*events)
    before = len(world.store.versions), {copy.event for copy in world.kept()}
    world.apply(event)
    if len(world.store.versions) > before[0]:
        removed, added = changed_rows(world.store)
        assert removed <= 3
        assert added <= 3
        assert len({copy.event for copy in world.kept()} - before[1]) <= 2


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (upsert((None,), 1, 1, "x"), "1 x null key"),
        (upsert(("k", None), 1, 1, "x"), "1 x null key"),
        (Event((), 1, Kind.DELETE), "1 x null key"),
        (upsert("k", None, 1, "x"), "1 x null sequence"),
        (truncate(None), "1 x null sequence"),
        (upsert("k", 1, 1, "x", "z"), "1 x unknown columns"),
        (upsert("k", "one", 1, "x"), "1 x unorderable sequence"),
    ],
)
def test_a_bad_batch_writes_nothing(event: Event, problem: str) -> None:
    world = World(ALL)
    with pytest.raises(BadBatchError, match=problem):
        world.apply(upsert("l", 1, 1, "x"), event)
    assert (len(world.store.versions), len(world.store.manifests), world.store.segments) == (1, 1, {})


@given(_FLOWS, st.lists(_EVENTS, max_size=12), _CHANCE)
@settings(max_examples=200)
def test_lost_progress_is_healed_by_the_feed(flow: Flow, events: list[Event], chance: random.Random) -> None:
    """The manifests are gone, and the feed is read again, in another order: the rows are right all the time."""
    world = World(flow, random_habits(chance))
    for batch in cut_batches(chance, events):
        world.apply(*batch.events)
    world.store.lose_progress()
    for batch in cut_batches(chance, chance.sample(events, len(events))):
        world.apply(*batch.events)
        world.check_shown(events)


def test_what_an_attempt_gave_up_before_it_died_is_still_needed() -> None:
    """It would have split the run of the first batch. Its segment counts when progress is lost, and its merge comes soon."""
    world = World(Flow(("a", "b"), frozenset({"a", "b"}), frozenset(), 2), Habits(longest_list=2, tidy_after=1))
    first, last, between = upsert(("l",), 1, None, "x"), upsert(("l",), 3, None, "x"), upsert(("l",), 2, None, None)
    world.apply(first, last)
    for step in world.deliver(Batch("dies", (between, truncate(4)))):
        if step == "wrote segment":
            break
    world.store.lose_progress()
    for events in ((first,), (last,), (between, truncate(4))):
        world.apply(*events)
    world.check_shown([first, last, between, truncate(4)])


@given(_FLOWS, st.lists(_EVENTS, max_size=12), _CHANCE)
@settings(max_examples=200)
def test_attempts_that_died_before_progress_was_lost_do_no_harm_in_the_end(
    flow: Flow, events: list[Event], chance: random.Random
) -> None:
    """Copies of batches that were never committed count now; the feed brings their events too."""
    world = World(flow, random_habits(chance))
    for batch in cut_batches(chance, events):
        steps = world.deliver(batch)
        for _ in zip(range(chance.choice((3, 4, 8, 20))), steps, strict=False):
            pass
        steps.close()
    world.store.lose_progress()
    for batch in cut_batches(chance, chance.sample(events, len(events))):
        world.apply(*batch.events)
    world.check_shown(events)
