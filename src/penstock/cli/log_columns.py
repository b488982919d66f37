"""Columns of `penstock log`: as they are when piped; on a terminal that is too narrow, shortened until the last one has room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

_IDS = frozenset({"build", "job run", "active build"})
_TIMES = frozenset({"time", "created", "updated"})
_SHORT_ID = 13
"""The part of an id that tells its time to a fraction of a minute; more of it is shown where ids would look alike."""
_LAST = 20
"""How much of the last column must be seen at least, before others are shortened or left out."""

Table = list[tuple[str, ...]]


def to_lines(head: Sequence[str], rows: Iterable[Sequence[str]], room: int | None) -> list[str]:
    """The lines of a table, head first; with `room`, none is longer."""
    table: Table = [tuple(head), *(tuple(row) for row in rows)]
    if room is None:
        return _align(table)
    for shorten in (_shorten_ids, _shorten_times, _leave_out_updated):
        if _width(table) > room:
            table = shorten(table)
    return [line if len(line) <= room else f"{line[: room - 1]}…" for line in _align(table)]


def _align(table: Table) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _width(table: Table) -> int:
    """How wide a table must be shown: its last column may be cut."""
    *widths, last = (max(map(len, column)) for column in zip(*table, strict=True))
    return sum(widths) + 2 * len(widths) + min(last, _LAST)


def _shorten_ids(table: Table) -> Table:
    return _change(table, _IDS, _to_beginnings)


def _shorten_times(table: Table) -> Table:
    """2026-11-18T13:46:00.123Z as 11-18 13:46:00; durations stay."""
    return _change(table, _TIMES, lambda cells: [f"{c[5:10]} {c[11:19]}" if c[10:11] == "T" else c for c in cells])


def _leave_out_updated(table: Table) -> Table:
    """The duration says the same."""
    if "updated" not in table[0] or "created" not in table[0]:
        return table
    place = table[0].index("updated")
    return [row[:place] + row[place + 1 :] for row in table]


def _change(table: Table, names: frozenset[str], change: Callable[[list[str]], list[str]]) -> Table:
    columns = [
        (name, *change(list(cells))) if name in names else (name, *cells) for name, *cells in zip(*table, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _to_beginnings(ids: list[str]) -> list[str]:
    length = _SHORT_ID
    while len({each[:length] for each in ids}) < len(set(ids)):
        length += 1
    return [each[:length] for each in ids]
