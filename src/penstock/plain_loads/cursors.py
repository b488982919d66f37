"""Cursors of loads by timestamp: from where on rows are read, and how far a load has come. Pure functions, no JVM.

A cursor's value is kept as exact text: microseconds since 1970 for a timestamp, ISO 8601 for a date and for a time without a
zone, plain digits for numbers. No value goes through a float or through a time zone.

A load reads `cursor >= watermark - lookback`, with the boundary itself: rows that share the last cursor may be committed later.
What is stored already is found again by key or by content, so reading more than necessary is always safe. For the same reason
the watermark never passes the clock: one row with a date in the future would otherwise hide all rows until then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from penstock.errors import PlainLoadError
from penstock.model.quantities import to_seconds

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_DECIMAL = re.compile(r"decimal\(\d+,(\d+)\)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_EXACT = Context(prec=100)
_LEAST_BIGINT = -(2**63)

Lookback = int | Decimal | timedelta | None


@dataclass(frozen=True, slots=True)
class Cursor:
    """The column that says how new a row is, and how late rows may appear."""

    name: str
    type: str
    lookback: Lookback = None

    @property
    def widest_type(self) -> str:
        """A type for a value to compare with: a lookback can lead below what a small number can hold."""
        match = _DECIMAL.fullmatch(self.type)
        return "bigint" if self.type in _WHOLE else f"decimal(38,{match[1]})" if match else self.type

    def since(self, watermark: str | None) -> str | None:
        """The text from which on rows are read, inclusive; None for all of them."""
        if watermark is None or not self.lookback:
            return watermark
        if isinstance(self.lookback, timedelta):
            return self._earlier(watermark, self.lookback)
        first = _EXACT.subtract(Decimal(watermark), Decimal(self.lookback))
        return None if self.type in _WHOLE and first < _LEAST_BIGINT else f"{first:f}"

    def _earlier(self, watermark: str, lookback: timedelta) -> str | None:
        if self.type == "timestamp":
            return str(int(watermark) - lookback // _MICRO)
        try:
            if self.type == "date":
                whole_days = -(-lookback // timedelta(days=1))  # rounded up: to read more is safe
                return (date.fromisoformat(watermark) - timedelta(days=whole_days)).isoformat()
            return (datetime.fromisoformat(watermark) - lookback).isoformat(" ")
        except (ValueError, OverflowError):  # before the year 1, or a year that Python does not know: read everything
            return None

    def advance(self, watermark: str | None, greatest: str | None, now_ns: int) -> str | None:
        """The watermark after a load whose greatest cursor is this one; it never goes back, and never passes the clock."""
        if greatest is None:
            return watermark
        reached = self._up_to_now(greatest, now_ns)
        return reached if watermark is None or self.order(reached) > self.order(watermark) else watermark

    def _up_to_now(self, greatest: str, now_ns: int) -> str:
        if self.type == "timestamp":
            return str(min(int(greatest), now_ns // 1000))
        if self.type == "date":
            today = (_EPOCH + timedelta(microseconds=now_ns // 1000)).date().isoformat()
            return min(greatest, today, key=self.order)
        return greatest

    def order(self, text: str) -> Any:
        """Something that sorts as the values do in Spark."""
        if self.type == "timestamp" or self.type in _WHOLE or _DECIMAL.fullmatch(self.type):
            return Decimal(text)
        if self.type in {"date", "timestamp_ntz"}:
            # Years of more than four digits have a sign in front.
            year, _, rest = text.lstrip("+").partition("-")
            return (int(year), rest) if year else (-int(rest.partition("-")[0]), rest)
        return text.encode()

    def to_value(self, text: str | None) -> Any:
        """The value as Python has it, for the user's function and the result."""
        if text is None or self.type == "string":
            return text
        try:
            if self.type == "timestamp":
                return _EPOCH + timedelta(microseconds=int(text))
            if self.type == "date":
                return date.fromisoformat(text)
            if self.type == "timestamp_ntz":
                return datetime.fromisoformat(text)
        except (ValueError, OverflowError):
            raise PlainLoadError(
                "cursor_range",
                f"the watermark of the cursor {self.name!r} is outside the years 1 to 9999, which Python's dates cannot hold",
                hint="correct these rows in the source, or give a DataFrame instead of a function",
            ) from None
        return int(text) if self.type in _WHOLE else Decimal(text)


def to_cursor(name: str, type_: str, lookback: int | float | Decimal | timedelta | str | None) -> Cursor:
    """The cursor of a load; PlainLoadError for a type without a dependable order, and for a lookback that does not fit it."""
    is_time = type_ in {"date", "timestamp", "timestamp_ntz"}
    if not is_time and type_ not in _WHOLE and type_ != "string" and not _DECIMAL.fullmatch(type_):
        raise PlainLoadError(
            "cursor_type",
            f"the cursor {name!r} is of type {type_}",
            hint="use a timestamp, date, whole number, decimal or text column; cast a float to a decimal",
        )
    if lookback is None:
        return Cursor(name, type_)
    if type_ == "string":
        raise PlainLoadError(
            "lookback", f"lookback has no meaning for the cursor {name!r}: it is text", hint="leave it out"
        )
    return Cursor(name, type_, _to_length(lookback) if is_time else _to_number(name, type_, lookback))


def _to_length(lookback: int | float | Decimal | timedelta | str) -> timedelta:
    try:
        length = timedelta(seconds=to_seconds(lookback)) if isinstance(lookback, str) else lookback
    except ValueError as error:
        raise PlainLoadError("lookback", f"lookback {error}") from None
    if not isinstance(length, timedelta) or length < timedelta(0):
        raise PlainLoadError(
            "lookback", "lookback of a date or time must be a length of time", hint='write "10 minutes" or a timedelta'
        )
    return length


def _to_number(name: str, type_: str, lookback: object) -> int | Decimal:
    is_whole = isinstance(lookback, int) and not isinstance(lookback, bool)
    is_exact = isinstance(lookback, Decimal) and lookback.is_finite() and type_ not in _WHOLE
    if isinstance(lookback, int | Decimal) and (is_whole or is_exact) and lookback >= 0:
        return lookback
    raise PlainLoadError(
        "lookback",
        f"lookback of the cursor {name!r} must be a number that is not negative: the cursor is of type {type_}",
        hint="write for example lookback=1000",
    )
