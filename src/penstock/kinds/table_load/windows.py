"""Cursor values as canonical texts: which of two is later, and what lies some time before one. Pure.

Values are numbers, times (ISO 8601, or as SQLite writes them) or other texts. A time keeps its format and every digit.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_TIME = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})(?:(?P<middle>[T ])(?P<time>\d{2}:\d{2}(?::\d{2})?)(?P<rest>(?:\.\d+)?))?"
    r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?"
)
_EARLIEST_ZONE = timedelta(hours=14)
DEFAULT_LOOKBACK = 600
"""Seconds, where a source cannot bound a cursor and the load declares nothing."""


def is_time(value: str) -> bool:
    """Whether the text is a date or a time."""
    return _parse(value) is not None


def is_plain(value: str) -> bool:
    """Whether the text is a number or a time, which a plan may show; other texts can be personal."""
    return bool(_NUMBER.fullmatch(value)) or is_time(value)


def later(one: str | None, other: str | None, type_: str = "") -> str | None:
    """The later of two values of a type; a value is later than none.

    Only the source knows the order of texts. There, `other` is the newer value, which is never too late.
    """
    if one is None or other is None:
        return other if one is None else one
    return other if type_ == "string" or _order(one, other) < 0 else one


def is_before(one: str, other: str) -> bool:
    """Whether a value lies before another."""
    return _order(one, other) < 0


def go_back(value: str, seconds: int) -> str | None:
    """The value some seconds earlier, in the same format; None for what is not a time."""
    if seconds == 0:
        return value
    found = _parse(value)
    if found is None:
        return None
    match, moment = found
    try:
        earlier = moment - timedelta(seconds=seconds)
    except OverflowError:
        return None
    day = f"{earlier.year:04d}-{earlier.month:02d}-{earlier.day:02d}"
    if match["time"] is None:  # a date: the whole day counts
        return f"{day}{match['zone'] or ''}"
    clock = earlier.strftime("%H:%M:%S" if match["time"].count(":") == 2 else "%H:%M")
    return f"{day}{match['middle']}{clock}{match['rest']}{match['zone'] or ''}"


def find_latest_now(value: str, now: str, zone: str | None) -> str | None:
    """The time now, in the format of a value that lies after it; None when the value does not, or is not a time.

    A value without a zone, where none is declared, may be local time anywhere: up to 14 hours after UTC.
    """
    found = _parse(value)
    if found is None:
        return None
    match, moment = found
    latest = datetime.fromisoformat(now).astimezone(UTC) + _offset(match["zone"], zone, now)
    ahead = (moment - latest).total_seconds()
    return go_back(value, math.ceil(ahead)) if ahead > 0 else None


def _offset(written: str | None, zone: str | None, now: str) -> timedelta:
    """How much later clocks show than UTC."""
    if written is not None and written != "Z":
        return datetime.strptime(f"{written.replace(':', '')}00"[:5], "%z").utcoffset() or timedelta()
    if written is None and zone is not None:
        return datetime.fromisoformat(now).astimezone(ZoneInfo(zone)).utcoffset() or timedelta()
    return timedelta() if written else _EARLIEST_ZONE


def _order(one: str, other: str) -> int:
    if _NUMBER.fullmatch(one) and _NUMBER.fullmatch(other):
        first, second = Decimal(one), Decimal(other)
        return (first > second) - (first < second)
    times = [found for found in (_parse(one), _parse(other)) if found is not None]
    if len(times) == 2:
        keys = [(moment, (match["rest"] or "").lstrip(".").rstrip("0")) for match, moment in times]
        return (keys[0] > keys[1]) - (keys[0] < keys[1])
    return (one > other) - (one < other)


def _parse(value: str) -> tuple[re.Match[str], datetime] | None:
    """A time as whole seconds; what follows the seconds stays in the match."""
    match = _TIME.fullmatch(value)
    if match is None:
        return None
    try:
        return match, datetime.fromisoformat(f"{match['day']}T{match['time'] or '00:00'}").replace(tzinfo=UTC)
    except ValueError:
        return None
