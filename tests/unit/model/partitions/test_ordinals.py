"""Sets of partitions as ranges, against Python's own sets."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.partitions.declared import read_ordinals, write_ordinals
from penstock.model.partitions.ordinals import common, from_numbers, members, size, to_ordinals, union, without
from penstock.model.partitions.schemes import ListScheme, daily, hourly, monthly

NUMBERS = st.sets(st.integers(0, 40))


@given(NUMBERS, NUMBERS)
def test_sets_of_ranges_are_sets(some: set[int], others: set[int]) -> None:
    left, right = from_numbers(some), from_numbers(others)
    assert set(members(common(left, right))) == some & others
    assert set(members(union(left, right))) == some | others
    assert set(members(without(left, right))) == some - others
    assert size(left) == len(some)
    for found in (left, common(left, right), union(left, right), without(left, right)):
        assert all(before.stop < after.start for before, after in itertools.pairwise(found))
        assert all(found)


def test_overlapping_ranges_become_one() -> None:
    assert to_ordinals([range(5, 8), range(0), range(1, 3), range(3, 5)]) == (range(1, 8),)


@given(NUMBERS)
def test_sets_are_written_and_read(numbers: set[int]) -> None:
    for scheme in (daily("2024-01-01"), hourly("2024-01-01T00"), monthly("2024-01")):
        shifted = from_numbers(scheme.start + number for number in numbers)
        assert read_ordinals(scheme, write_ordinals(scheme, shifted)) == shifted
    listed = ListScheme("region", tuple(f"r{number}" for number in range(41)))
    assert read_ordinals(listed, write_ordinals(listed, from_numbers(numbers))) == from_numbers(numbers)


def test_what_another_scheme_wrote_counts_for_nothing() -> None:
    days = write_ordinals(daily("2024-01-01"), to_ordinals([range(738_000, 738_010)]))
    assert days == ["2021-07-29..2021-08-07"]
    assert read_ordinals(hourly("2024-01-01T00"), days) == ()
    assert read_ordinals(ListScheme("region", ("EU",)), ["EU", "gone"]) == (range(1),)
