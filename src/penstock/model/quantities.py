"""Sizes, shares and lengths of time as people write them: `128 MB`, `10%`, `30 days`."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z%]*)\s*\Z")
_SIZES = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_MINUTE = 60
_TIMES = {
    "second": 1,
    "minute": _MINUTE,
    "hour": 60 * _MINUTE,
    "day": 24 * 60 * _MINUTE,
    "week": 7 * 24 * 60 * _MINUTE,
}


def to_bytes(text: str) -> int:
    """A size in bytes; ValueError says how to write one."""
    number, unit = _split(text)
    if unit.lower() not in _SIZES or number * _SIZES[unit.lower()] < 1:
        raise ValueError("must be a size such as `128 MB` or `64 MiB`")
    return int(number * _SIZES[unit.lower()])


def to_share(text: str) -> float:
    """A share between 0 and 1; ValueError says how to write one."""
    number, unit = _split(text)
    if unit != "%" or number > 100:
        raise ValueError("must be a share such as `10%`, between 0% and 100%")
    return number / 100


def to_seconds(text: str) -> int:
    """A length of time in seconds; ValueError says how to write one."""
    number, unit = _split(text)
    word = unit.lower().removesuffix("s")
    if word not in _TIMES:
        raise ValueError("must be a length of time such as `30 days` or `12 hours`")
    return int(number * _TIMES[word])


def _split(text: str) -> tuple[float, str]:
    match = _NUMBER.match(text)
    return (float(match[1]), match[2]) if match else (-1.0, "")
