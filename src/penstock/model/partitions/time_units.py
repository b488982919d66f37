"""Hours, days and months as numbers: each time partition has an ordinal, and the next one has the next ordinal."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_LAST_HOUR = (datetime(9999, 12, 31, 23, tzinfo=UTC) - _EPOCH) // _HOUR


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """How long a time partition is, how it is written, and how it is counted."""

    name: str
    form: str
    """How a value is written, for messages."""
    pattern: re.Pattern[str]
    parse: Callable[[str], int]
    """The ordinal of a value that matches the pattern; ValueError if there is no such time."""
    write: Callable[[int], str]
    begin: Callable[[int, tzinfo], datetime]
    """The first moment of a partition."""
    find: Callable[[datetime], int]
    """The ordinal of the partition that contains a moment, which is given in the time zone of the scheme."""
    last: int
    """The last ordinal whose end can still be written."""


def _parse_hour(text: str) -> int:
    return _find_hour(datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC))


def _write_hour(ordinal: int) -> str:
    return (_EPOCH + ordinal * _HOUR).isoformat()[:13]


def _begin_hour(ordinal: int, zone: tzinfo) -> datetime:
    return (_EPOCH + ordinal * _HOUR).astimezone(zone)


def _find_hour(moment: datetime) -> int:
    return (moment - _EPOCH) // _HOUR


def _begin_day(ordinal: int, zone: tzinfo) -> datetime:
    day = date.fromordinal(ordinal)
    return _first_moment(datetime(day.year, day.month, day.day, tzinfo=zone))


def _parse_month(text: str) -> int:
    day = date.fromisoformat(f"{text}-01")
    return day.year * 12 + day.month - 1


def _write_month(ordinal: int) -> str:
    return f"{ordinal // 12:04}-{ordinal % 12 + 1:02}"


def _begin_month(ordinal: int, zone: tzinfo) -> datetime:
    return _first_moment(datetime(ordinal // 12, ordinal % 12 + 1, 1, tzinfo=zone))


def _first_moment(midnight: datetime) -> datetime:
    """The moment at which a day begins: where the clock skips midnight, the first one after the gap."""
    return midnight.astimezone(UTC).astimezone(midnight.tzinfo)


HOUR = TimeUnit(
    "hour",
    "YYYY-MM-DDTHH (UTC)",
    re.compile(r"\d{4}-\d\d-\d\dT\d\d\Z"),
    _parse_hour,
    _write_hour,
    _begin_hour,
    _find_hour,
    _LAST_HOUR - 1,
)
DAY = TimeUnit(
    "day",
    "YYYY-MM-DD",
    re.compile(r"\d{4}-\d\d-\d\d\Z"),
    lambda text: date.fromisoformat(text).toordinal(),
    lambda ordinal: date.fromordinal(ordinal).isoformat(),
    _begin_day,
    lambda moment: moment.toordinal(),
    date.max.toordinal() - 1,
)
MONTH = TimeUnit(
    "month",
    "YYYY-MM",
    re.compile(r"\d{4}-\d\d\Z"),
    _parse_month,
    _write_month,
    _begin_month,
    lambda moment: moment.year * 12 + moment.month - 1,
    9999 * 12 + 10,
)


def are_consecutive(first: str, last: str, count: int) -> bool:
    """Whether so many partitions with these ends, in order, leave no gap; False if they are not times."""
    for unit in (DAY, HOUR, MONTH):
        if unit.pattern.match(first) and unit.pattern.match(last):
            try:
                return abs(unit.parse(last) - unit.parse(first)) == count - 1
            except ValueError:
                return False
    return False
