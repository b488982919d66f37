"""Sets of partitions as ranges of ordinals: a year of days is one range, so sets cost their gaps and not their members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

Ordinals: TypeAlias = tuple[range, ...]
"""Ranges in ascending order that neither overlap nor touch, none of them empty."""

NOTHING: Ordinals = ()


def to_ordinals(ranges: Iterable[range]) -> Ordinals:
    """The set that these ranges make together."""
    found: list[range] = []
    for each in sorted((each for each in ranges if each), key=lambda each: each.start):
        if found and each.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, each.stop))
        else:
            found.append(each)
    return tuple(found)


def from_numbers(numbers: Iterable[int]) -> Ordinals:
    """The set of these numbers."""
    return to_ordinals(range(number, number + 1) for number in numbers)


def union(*sets: Ordinals) -> Ordinals:
    """What is in any of the sets."""
    return to_ordinals(chain.from_iterable(sets))


def common(some: Ordinals, others: Ordinals) -> Ordinals:
    """What is in both sets."""
    found: list[range] = []
    left, right = iter(some), iter(others)
    ours, theirs = next(left, None), next(right, None)
    while ours is not None and theirs is not None:
        start, stop = max(ours.start, theirs.start), min(ours.stop, theirs.stop)
        if start < stop:
            found.append(range(start, stop))
        if ours.stop < theirs.stop:
            ours = next(left, None)
        else:
            theirs = next(right, None)
    return tuple(found)


def without(some: Ordinals, removed: Ordinals) -> Ordinals:
    """What is in the first set and not in the second."""
    if not some or not removed:
        return some
    gaps: list[range] = []
    at = some[0].start
    for each in removed:
        gaps.append(range(at, max(at, each.start)))
        at = max(at, each.stop)
    gaps.append(range(at, max(at, some[-1].stop)))
    return common(some, to_ordinals(gaps))


def members(ordinals: Ordinals) -> Iterator[int]:
    """Every number of a set, ascending."""
    return chain.from_iterable(ordinals)


def size(ordinals: Ordinals) -> int:
    """How many numbers a set has."""
    return sum(len(each) for each in ordinals)
