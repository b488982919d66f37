"""Every rule of AutoCDC is needed: with a looser one, a history shows rows that are wrong, or a sound table is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.model_based import autocdc_scd1, autocdc_scd2, autocdc_simulation
from tests.model_based.autocdc_histories import (
    COLUMNS,
    History,
    World,
    WrongRowsError,
    live_at_once,
    live_in_turn,
    random_history,
)
from tests.model_based.autocdc_model import Event, Flow, Kind, delete, upsert
from tests.model_based.autocdc_simulation import DamagedError, Habits
from tests.model_based.autocdc_store import Segment, Store

ALL = Flow(COLUMNS, frozenset(COLUMNS))

Live = Callable[[History, random.Random], None]


def ends_after(row: Any, cutoff: Any) -> bool:
    return row.end is None or cutoff.m is None or row.end > cutoff.m


def is_from_m(copy: Any, rows: Any, cutoff: Any) -> bool:
    return autocdc_scd2.is_from(copy.event.sequence, cutoff)


def includes_own(row: Any, event: Event) -> bool:
    return bool(row.start <= event.sequence <= row.sequence)


def all_events(copies: Any, *_: Any) -> set[Event]:
    return {copy.event for copy in copies}


def filled_values(flow: Flow, row: Any) -> Any:
    return row.values


def cut_at_m(flow: Flow, part: Any) -> Any:
    return autocdc_scd2.Cutoff(min([*(event.sequence for event in part.events), *part.new_truncates]))


def keep_without_row(flow: Flow, history: list[Event]) -> set[Event]:
    return {history[-1]} if history[-1].kind is Kind.DELETE else set()


def read_all(store: Store, names: Any) -> list[Segment]:
    return list(store.segments.values())


def merge_by_sequence(new: Segment, segments: Any) -> Segment:
    everything = [*segments, new]
    forgotten = {identity[:2] for segment in everything for identity in segment.forget}
    copies = {copy for segment in everything for copy in segment.copies if copy.identity[:2] not in forgotten}
    return Segment(new.name, frozenset(copies))


def is_not_listed(name: Any, base: int, kept: Any) -> bool:
    return name not in kept


def never_look(store: Store, snapshot: Any) -> None:
    raise DamagedError


GIVEN_UP = (
    (upsert("k", 10, 2, "x"), upsert("k", 30, 2, "x"), upsert("k", 50, 2, "x"), delete("m", 30)),
    (upsert("k", 40, 1, "x"), upsert("m", 10, 1, "x")),  # shows k's event at 30, and absorbs m's delete
    (upsert("k", 40, 2, "x"), delete("m", 20)),  # hides the one again, and lets the other stand alone again
    (delete("l", 10),),  # merges: the first copies of both are dropped
    (upsert("k", 20, 1, "x"), upsert("m", 25, 1, "x")),  # needs both
)
"""Batches in which copies are given up, needed again, and merged away."""


def live_by_hand() -> None:
    world = World(ALL, Habits(longest_list=3, tidy_after=2))
    for events in GIVEN_UP:
        world.apply(*events)
        world.check()
    world.check_end(event for events in GIVEN_UP for event in events)


def test_what_was_given_up_and_is_needed_again_is_remembered_anew() -> None:
    live_by_hand()


LOOSER: dict[str, tuple[object, str, Any]] = {
    "rows that end at m are left out": (autocdc_scd2, "is_affected", ends_after),
    "hidden events count by m": (autocdc_scd2, "counts", is_from_m),
    "hidden events count always": (autocdc_scd2, "counts", lambda *_: True),
    "the own event counts as hidden": (autocdc_scd2, "covers", includes_own),
    "an old copy is good enough": (autocdc_scd2, "remembered_before", all_events),
    "filled values pass for given ones": (autocdc_scd2, "own_values", filled_values),
    "ignored nulls need nothing before m": (autocdc_scd2, "find_cutoff", cut_at_m),
    "ignored nulls need no tombstone beneath a row": (autocdc_scd1, "keep_scd1", keep_without_row),
    "segments count that no manifest lists": (Store, "read_segments", read_all),
    "the table may have changed since it was read": (autocdc_simulation, "is_as_read", lambda *_: True),
    "slow attempts are not fenced off": (Store, "find_rivals", lambda *_: []),
    "a commit is not read back": (autocdc_simulation, "is_committed", lambda *_: True),
    "a merge forgets by sequence": (autocdc_simulation, "merge_segments", merge_by_sequence),
}

REFUSES: dict[str, tuple[object, str, Any]] = {
    "segments of slow attempts are removed": (autocdc_simulation, "is_removable", is_not_listed),
    "a segment that is gone is damage at once": (autocdc_simulation, "check_others_were_faster", never_look),
}


@pytest.mark.parametrize("rule", LOOSER)
def test_a_looser_rule_shows_wrong_rows(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only is something untidy: with the looser rule a user sees rows that are wrong."""
    monkeypatch.setattr(*LOOSER[rule])
    monkeypatch.setattr(World, "check_auxiliary", lambda _: None)
    lives = (partial(live_by_chance, seed, live) for seed in range(4_000) for live in (live_at_once, live_in_turn))
    assert shows_wrong_rows(live_by_hand) or any(shows_wrong_rows(life) for life in lives)


@pytest.mark.parametrize("rule", REFUSES)
def test_a_looser_rule_ends_in_damage(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows stay right, but a table that is sound is refused, or becomes one that must be."""
    monkeypatch.setattr(*REFUSES[rule])
    monkeypatch.setattr(World, "check_auxiliary", lambda _: None)
    assert any(ends_in_damage(seed) for seed in range(4_000))


def ends_in_damage(seed: int) -> bool:
    try:
        live_by_chance(seed, live_at_once)
    except DamagedError:
        return True
    return False


def live_by_chance(seed: int, live: Live) -> None:
    chance = random.Random(seed)
    live(random_history(chance), chance)


def shows_wrong_rows(life: Callable[[], None]) -> bool:
    """Whether a history goes wrong before a user's eyes; a refusal or another failed check does not count."""
    try:
        life()
    except WrongRowsError:
        return True
    except (AssertionError, DamagedError):
        return False
    return False
