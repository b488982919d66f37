"""Batches: cut evenly, and searched with few runs; whatever fails, every good partition counts and runs once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.model.partitions.batching import LARGEST, choose_batches
from penstock.run.batches import BatchSearch


def search(count: int, run: Callable[[Sequence[int]], str | None]) -> tuple[BatchSearch[int], Counter[int]]:
    """Search a failed batch; also how often each partition ran successfully."""
    found: BatchSearch[int] = BatchSearch(range(count), run(range(count)) or "")
    done: Counter[int] = Counter()
    for _ in range(50 * count + 50):
        batch = found.next_batch()
        if batch is None:
            return found, done
        assert len(batch) > 0
        error = run(batch)
        if error is None:
            done.update(batch)
        found.told(error)
    raise AssertionError("the search does not end")


def failing(bad: set[int]) -> Callable[[Sequence[int]], str | None]:
    return lambda batch: "bad data" if bad & set(batch) else None


@pytest.mark.parametrize("count", [1, 2, 3, 64, 89, 90, 100])
def test_one_bad_partition_costs_few_runs_wherever_it_is(count: int) -> None:
    for bad in range(count):
        found, done = search(count, failing({bad}))
        assert (found.bad, found.untried) == ({bad: "bad data"}, {})
        assert sorted(found.good) == [number for number in range(count) if number != bad]
        assert set(done.values()) <= {1}
        assert found.runs <= (8 if count <= 90 else 9)


@given(count=st.integers(1, 60), data=st.data())
def test_every_good_partition_counts_and_runs_once(count: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=8))
    found, done = search(count, failing(bad))
    assert set(found.good) == set(done)
    assert set(done.values()) <= {1}
    assert set(found.good) | set(found.bad) | set(found.untried) == set(range(count))
    assert len(found.good) + len(found.bad) + len(found.untried) == count
    assert set(found.bad) <= bad
    if found.good or len(bad) == 1:
        assert set(found.bad) == bad
        assert not found.untried


@given(count=st.integers(2, 60), data=st.data())
@example(count=90, data=None)
def test_causes_of_their_own_never_stop_the_search(count: int, data: st.DataObject | None) -> None:
    bad = set(range(0, count, 10)) if data is None else data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    found, _ = search(count, lambda batch: next((f"error {number}" for number in batch if number in bad), None))
    assert set(found.bad) == bad
    assert set(found.good) == set(range(count)) - bad
    assert found.bad == {number: f"error {number}" for number in bad}


def test_nine_bad_days_of_ninety_are_found_wherever_they_begin() -> None:
    for first in range(10):
        bad = set(range(first, 90, 10))
        found, _ = search(90, failing(bad))
        assert set(found.bad) == bad
        assert found.runs <= 9 * 9


def test_a_definition_that_is_broken_is_not_tried_for_every_partition() -> None:
    found, _ = search(90, failing(set(range(90))))
    assert found.good == []
    assert set(found.bad) == {0, 89}
    assert len(found.untried) == 88
    assert found.runs <= 10


def test_a_batch_that_is_only_too_large_has_no_bad_partition() -> None:
    found, done = search(90, lambda batch: "out of memory" if len(batch) > 45 else None)
    assert (found.bad, found.untried) == ({}, {})
    assert done == Counter(range(90))
    assert found.runs <= 8


@given(count=st.integers(0, 5000), size=st.none() | st.integers(1, 200), takes_many=st.booleans())
def test_batches_are_even_consecutive_and_as_few_as_possible(count: int, size: int | None, takes_many: bool) -> None:
    batches = choose_batches(range(count), size, takes_many=takes_many)
    assert [number for batch in batches for number in batch] == list(range(count))
    most = 1 if not takes_many else size or LARGEST
    assert len(batches) == -(-count // most)
    sizes = {len(batch) for batch in batches}
    assert not sizes or (max(sizes) <= most and max(sizes) - min(sizes) <= 1)


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        choose_batches([1], 0, takes_many=True)
