"""How a dataset is partitioned: by hour, day or month from a start on, by a list of values, or by the values of a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from typing import TypeAlias

from penstock.model.nearest import did_you_mean
from penstock.model.partitions.refs import PartitionError, find_unusable
from penstock.model.partitions.time_units import DAY, HOUR, MONTH, TimeUnit
from penstock.model.time_zones import ZONE_HINT, find_zone

MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class TimeScheme:
    """A partition per hour, day or month, from `start` to `end` (both included); it exists once its time has passed."""

    unit: TimeUnit
    key: str
    start: int
    end: int | None = None
    zone: tzinfo = UTC
    """Where days and months begin; hours are UTC."""
    includes_current: bool = False
    """Whether the partition that contains this moment exists already."""

    def existing(self, now: datetime) -> range:
        """The ordinals of the partitions that exist at a moment."""
        stop = self.unit.find(now.astimezone(self.zone)) + self.includes_current
        if self.end is not None:
            stop = min(stop, self.end + 1)
        return range(self.start, max(self.start, stop))

    def parse(self, text: str) -> int:
        """The ordinal of a value, whether or not such a partition exists."""
        unit = self.unit
        try:
            if unit.pattern.match(text) and (found := unit.parse(text)) <= unit.last:
                return found
        except ValueError:
            pass
        raise PartitionError(f"{text!r} is not a valid {unit.name}", hint=f"write {self.key}={unit.form}")

    def write(self, ordinal: int) -> str:
        """The value of a partition."""
        return self.unit.write(ordinal)

    def bounds(self, ordinal: int) -> tuple[datetime, datetime]:
        """The first moment of a partition and the first moment after it."""
        return self.unit.begin(ordinal, self.zone), self.unit.begin(ordinal + 1, self.zone)

    def find(self, moment: datetime) -> int:
        """The ordinal of the partition that contains a moment."""
        return self.unit.find(moment.astimezone(self.zone))


@dataclass(frozen=True, slots=True)
class ListScheme:
    """A partition per value of a list."""

    key: str
    values: tuple[str, ...]
    _ordinals: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ordinals", {value: number for number, value in enumerate(self.values)})
        if len(self._ordinals) < len(self.values):
            raise PartitionError(
                f"the list of partitions of {self.key!r} has a value twice", hint="name each value once"
            )
        for number, value in enumerate(self.values):
            if (unusable := find_unusable(self.key, value)) is not None:
                raise PartitionError(
                    f"value {number + 1} of the partitions {self.key!r} is {unusable}, which cannot be a partition",
                    hint="use a short text: each partition is a folder",
                )

    def existing(self, now: datetime) -> range:  # noqa: ARG002 - the values of a list always exist
        """The ordinals of all partitions."""
        return range(len(self.values))

    def parse(self, text: str) -> int:
        """The ordinal of a value."""
        found = self.find(text)
        if found is None:
            some = ", ".join(self.values[:MAX_LISTED]) + (", ..." if len(self.values) > MAX_LISTED else "")
            raise PartitionError(
                f"there is no partition {self.key}={text}{did_you_mean(text, self.values)}", hint=f"there are {some}"
            )
        return found

    def find(self, value: str) -> int | None:
        """The ordinal of a value, if the list has it."""
        return self._ordinals.get(value)

    def write(self, ordinal: int) -> str:
        """The value of a partition."""
        return self.values[ordinal]


@dataclass(frozen=True, slots=True)
class ColumnScheme:
    """A partition per value of a column: only the data says which ones there are."""

    key: str

    def with_values(self, values: Sequence[str]) -> ListScheme:
        """The partitions that the data has, as a list."""
        return ListScheme(self.key, tuple(values))


Scheme: TypeAlias = TimeScheme | ListScheme | ColumnScheme
Countable: TypeAlias = TimeScheme | ListScheme
"""Schemes whose partitions can be counted without reading data."""


def hourly(
    start: str | date, end: str | date | None = None, *, key: str = "hour", includes_current: bool = False
) -> TimeScheme:
    """A partition per hour, in UTC: an hour of a zone with daylight saving time occurs twice or never."""
    return _to_scheme(TimeScheme(HOUR, key, 0, includes_current=includes_current), start, end)


def daily(
    start: str | date,
    end: str | date | None = None,
    *,
    key: str = "date",
    time_zone: str = "UTC",
    includes_current: bool = False,
) -> TimeScheme:
    """A partition per day of a time zone."""
    return _to_scheme(TimeScheme(DAY, key, 0, None, _to_zone(time_zone), includes_current), start, end)


def monthly(
    start: str | date,
    end: str | date | None = None,
    *,
    key: str = "month",
    time_zone: str = "UTC",
    includes_current: bool = False,
) -> TimeScheme:
    """A partition per month of a time zone."""
    return _to_scheme(TimeScheme(MONTH, key, 0, None, _to_zone(time_zone), includes_current), start, end)


def _to_text(draft: TimeScheme, given: object) -> str:
    """How a partition is written that a user gives as a text, a date or a time."""
    if isinstance(given, str):
        return given
    if isinstance(given, datetime):
        moment = given if given.tzinfo is not None else given.replace(tzinfo=draft.zone)
    elif isinstance(given, date):
        moment = datetime(given.year, given.month, given.day, tzinfo=draft.zone)
    else:
        raise PartitionError(
            f"a partition of {draft.key!r} must be a text, a date or a time, not {type(given).__name__}",
            hint="write it as text, such as '2024-01-01'",
        )
    return draft.write(draft.find(moment))


def _to_scheme(draft: TimeScheme, start: str | date, end: str | date | None) -> TimeScheme:
    first = draft.parse(_to_text(draft, start))
    last = None if end is None else draft.parse(_to_text(draft, end))
    if last is not None and last < first:
        raise PartitionError(
            f"the partitions end with {end}, before they start with {start}", hint="swap start and end"
        )
    return TimeScheme(draft.unit, draft.key, first, last, draft.zone, draft.includes_current)


def _to_zone(name: str) -> tzinfo:
    try:
        return find_zone(name)
    except ValueError as error:
        raise PartitionError(str(error), hint=ZONE_HINT) from None
