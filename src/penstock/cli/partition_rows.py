"""Partitions in tables that people read: items that differ in nothing but their partitions are one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from penstock.model.partitions.refs import name_parts
from penstock.model.plan import Item
from penstock.model.results import ItemResult, LoadResult, Outcome


def group_items(items: Iterable[Item]) -> Iterator[Item]:
    """The items of a plan; consecutive ones of partitions with the same action and reasons as one, with their count."""
    for (_, is_partition, *_), found in groupby(
        items, key=lambda item: (item.dataset, bool(item.parts), item.action, item.reasons, item.problem)
    ):
        group = list(found)
        if not is_partition or len(group) == 1:
            yield from group
        else:
            parts = tuple(part for item in group for part in item.parts)
            yield replace(group[0], partition=f"{name_parts(parts)} ({len(group)} job runs)", parts=parts)


def group_results(results: Iterable[ItemResult]) -> Iterator[ItemResult]:
    """The results of a run; consecutive partitions that were built without a problem as one, with their sums."""
    for is_alike, found in groupby(results, key=_alike):
        group = list(found)
        if is_alike[0] is None or len(group) == 1:
            yield from group
        else:
            yield _add_up(group)


def _alike(result: ItemResult) -> tuple[object, ...]:
    part = result.id.removeprefix(str(result.dataset)).removeprefix("/")
    is_plain = result.outcome is Outcome.PASS and part
    return (result.dataset if is_plain else None, result.action, result.reasons)


def _add_up(group: list[ItemResult]) -> ItemResult:
    first, last = (result.id.partition("/")[2].partition("..") for result in (group[0], group[-1]))
    end = last[2] or last[0].partition("=")[2]
    loads = [result.load for result in group if result.load is not None]
    load = LoadResult(loads[-1].version, sum(load.rows for load in loads)) if loads else None
    name = f"{group[0].dataset}/{first[0]}..{end} ({len(group)} job runs)"
    return replace(group[0], id=name, seconds=sum(result.seconds for result in group), load=load)
