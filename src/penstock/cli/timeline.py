"""A history drawn as lines: one for each key, from the start of each row to its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

_STEP = 5


class Interval(NamedTuple):
    """A row of a history: its key, its label, its start and its end."""

    key: str
    label: str
    start: int
    end: int | None


def draw_timeline(intervals: Sequence[Interval]) -> str:
    """The intervals of each key on one line under a common scale; an open one extends to the right."""
    if not intervals:
        return "(no rows)"
    last = max(max(row.end or row.start for row in intervals) + 2, 2)
    width = max(len(row.key) for row in intervals) + 2
    scale = " " * width + "".join(f"{at:<{_STEP}}" for at in range(1, last + 1))
    keys = dict.fromkeys(row.key for row in sorted(intervals))
    lines = [f"{key:<{width}}{_draw([row for row in intervals if row.key == key], last)}" for key in keys]
    return "\n".join([scale.rstrip(), *lines])


def _draw(rows: Iterable[Interval], last: int) -> str:
    line = [" "] * ((last + 1) * _STEP)
    for row in sorted(rows, key=lambda row: row.start):
        begin = (row.start - 1) * _STEP
        end = (row.end - 1) * _STEP if row.end is not None else last * _STEP
        line[begin:end] = ["─"] * (end - begin)
        line[begin] = "├"
        line[end] = "┤" if row.end is not None else "→"
        label = f" {row.label} "[: max(end - begin - 1, 0)]
        line[begin + 1 : begin + 1 + len(label)] = label
    return "".join(line).rstrip()
