"""Which partitions of an input a partition reads, and which partitions read a partition of an input: the same rule, both ways.

    mapping.reads(reader, source, ordinal)      partitions of the source that the reader's partition needs
    mapping.readers(reader, source, ordinal)    partitions of the reader that need the source's partition

Both are ranges, not clipped to what exists: intersect them with `scheme.existing(now)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Protocol

from penstock.model.partitions.refs import PartitionError
from penstock.model.partitions.schemes import Countable, ListScheme, TimeScheme

_MOMENT = timedelta(microseconds=1)
_FARTHEST = timedelta(hours=26)
"""Between the same time of the day in the first and in the last time zone."""
_STATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)?\Z")
"""How the statistics of a timestamp are written; another form is that of a text."""
EVERYTHING = range(-(1 << 62), 1 << 62)
"""Every partition: intersected with those that exist, all of them."""


class PartitionMapping(Protocol):
    """How the partitions of a dataset depend on those of an input that is partitioned too."""

    def reads(self, reader: Countable, source: Countable, ordinal: int) -> range:
        """The partitions of the source that a partition of the reader needs."""
        ...

    def readers(self, reader: Countable, source: Countable, ordinal: int) -> range:
        """The partitions of the reader that need a partition of the source."""
        ...


@dataclass(frozen=True, slots=True)
class Window:
    """The same time, and so many of the reader's partitions before and after it."""

    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        if self.before < 0 or self.after < 0:
            raise PartitionError(
                "a window cannot be negative", hint="use before=6 for this day and the six days before it"
            )

    def reads(self, reader: Countable, source: Countable, ordinal: int) -> range:
        """The partitions of the source in the window around a partition of the reader."""
        return _overlap(reader, source, range(ordinal - self.before, ordinal + self.after + 1))

    def readers(self, reader: Countable, source: Countable, ordinal: int) -> range:
        """The partitions of the reader whose window contains a partition of the source."""
        found = _overlap(source, reader, range(ordinal, ordinal + 1))
        return range(found.start - self.after, found.stop + self.before) if found else found


SAME = Window()
"""The same partition; with different units, all that share a moment: a day reads its 24 hours."""


@dataclass(frozen=True, slots=True)
class AllPartitions:
    """Each partition of the reader needs every partition of the source."""

    def reads(self, reader: Countable, source: Countable, ordinal: int) -> range:  # noqa: ARG002 - a mapping
        """Every partition of the source."""
        return EVERYTHING

    def readers(self, reader: Countable, source: Countable, ordinal: int) -> range:  # noqa: ARG002 - a mapping
        """Every partition of the reader."""
        return EVERYTHING


@dataclass(frozen=True, slots=True)
class ByColumn:
    """The source is not partitioned: the values of one of its columns say which partitions of the reader they belong to."""

    column: str
    is_vague: bool = False
    """Whether the reader may take a moment for one of another time zone."""

    def touched(self, reader: Countable, least: object, greatest: object) -> range:
        """The partitions that rows with values from `least` to `greatest` can belong to.

        Everything if the statistics say nothing that can be used: then the plan must say so.
        """
        if isinstance(reader, ListScheme):
            return _touched_values(reader, least, greatest)
        first, last = _to_moment(least, reader, time.min), _to_moment(greatest, reader, time.max)
        if first is None or last is None or last < first:
            return EVERYTHING
        try:
            if not (_is_date(least) and _is_date(greatest)) and (
                self.is_vague or _is_text(least) or _is_text(greatest)
            ):
                first, last = first - _FARTHEST, last + _FARTHEST
            return range(reader.find(first), reader.find(last) + 1)
        except OverflowError:  # a date at the end of the calendar, in a zone beyond it
            return EVERYTHING


def intersect(some: range, others: range) -> range:
    """The ordinals that both ranges have."""
    start, stop = max(some.start, others.start), min(some.stop, others.stop)
    return range(start, max(start, stop))


def _overlap(ours: Countable, theirs: Countable, ordinals: range) -> range:
    """The partitions of the other scheme that share a moment with ours."""
    if isinstance(ours, ListScheme) or isinstance(theirs, ListScheme):
        return _same_values(ours, theirs, ordinals)
    if (ours.unit, ours.zone) == (theirs.unit, theirs.zone):
        return ordinals
    begin, end = ours.bounds(ordinals[0])[0], ours.bounds(ordinals[-1])[1]
    # In UTC: arithmetic within a zone is that of the clock on the wall, and would step into a gap.
    return range(theirs.find(begin), theirs.find(end.astimezone(UTC) - _MOMENT) + 1)


def _same_values(ours: Countable, theirs: Countable, ordinals: range) -> range:
    if not isinstance(ours, ListScheme) or not isinstance(theirs, ListScheme) or len(ordinals) > 1:
        raise PartitionError(
            "partitions of a list can only be mapped to the same values, or to all partitions",
            hint="map them with `all`, or partition both datasets by the same list",
        )
    found = theirs.find(ours.values[ordinals.start])
    return range(0) if found is None else range(found, found + 1)


def _touched_values(reader: ListScheme, least: object, greatest: object) -> range:
    if not isinstance(least, str) or not isinstance(greatest, str):
        return EVERYTHING
    found = [number for number, value in enumerate(reader.values) if least <= value <= greatest]
    return range(found[0], found[-1] + 1) if found else range(0)


def _is_date(value: object) -> bool:
    if isinstance(value, str):
        return len(value) == len("YYYY-MM-DD")
    return isinstance(value, date) and not isinstance(value, datetime)


def _is_text(value: object) -> bool:
    """Whether this is a time that was written by hand: such texts are ordered by their letters, whatever their time zones."""
    return isinstance(value, str) and not _STATED.match(value)


def _to_moment(value: object, scheme: TimeScheme, end_of_day: time) -> datetime | None:
    """A value of a column as a moment; what has no time zone is a time in that of the scheme."""
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value) if len(value) == len("YYYY-MM-DD") else datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=scheme.zone)
    return datetime.combine(value, end_of_day, scheme.zone) if isinstance(value, date) else None
