"""When a value of a declared column is a needle: 42, 42.00 and '42' are one value, whatever type a file gives the column."""

from __future__ import annotations

import base64
import re
import unicodedata
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from penstock.maintenance.scan.needles import Needle

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?")
_AS_THEY_ARE = {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()}
"""Types whose candidates need no conversion."""
_MAY_MEAN_MORE = frozenset("-0123456789tTfF")
"""What numbers, dates and booleans begin with."""
_MOST_DIGITS = 400
"""A number with a greater exponent keeps it: 1e999999999 would be a text of a gigabyte."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_keys(value: object) -> frozenset[str]:
    """What a value from a file can be compared by; two values with a common key are equal."""
    if isinstance(value, bool):
        text = "true" if value else "false"
        return frozenset({f"boolean:{text}", f"text:{text}"})
    if isinstance(value, int):
        return frozenset({f"number:{value}", f"text:{value}"})
    if isinstance(value, float | Decimal):
        return frozenset({f"number:{_number(value)}", f"text:{_number(value)}", f"text:{value}"})
    if isinstance(value, datetime):
        return frozenset({f"time:{_time(value)}", f"text:{value.isoformat()}", f"text:{value.isoformat(sep=' ')}"})
    if isinstance(value, date):
        return frozenset({f"date:{value.isoformat()}", f"text:{value.isoformat()}"})
    if isinstance(value, bytes | bytearray | memoryview):
        return frozenset({f"bytes:{bytes(value).hex()}"})
    return frozenset(_keys_of_text(str(value))) if value is not None else frozenset()


def needle_keys(needle: Needle) -> frozenset[str]:
    """By which keys a needle is recognized in its columns."""
    keys = {f"text:{_nfc(needle.text)}", f"bytes:{needle.text.encode(errors='surrogatepass').hex()}"}
    for value in needle.values:
        if isinstance(value, str):
            keys |= {f"text:{_nfc(value)}", f"bytes:{value.encode(errors='surrogatepass').hex()}"}
        elif isinstance(value, uuid.UUID):
            keys |= {f"text:{value}", f"bytes:{value.hex}"}
        elif isinstance(value, bytes | bytearray):
            encoded = base64.b64encode(value).decode()
            keys |= {f"bytes:{value.hex()}", f"text:{value.hex()}", f"text:{value.hex().upper()}", f"text:{encoded}"}
        else:
            keys |= to_keys(value) | {f"number:{number}" for number in _epochs(value)} | set(_truncated(value))
    return frozenset(keys)


def to_arrow(needle: Needle, type_: pa.DataType) -> Iterator[object]:
    """The needle as values that an Arrow column of this type can hold; nothing where it has no such value."""
    for value in dict.fromkeys((needle.text, *needle.values)):
        for candidate in _candidates(value, type_):
            if candidate is None:
                continue
            if type_ in _AS_THEY_ARE:
                yield candidate
                continue
            try:
                yield pa.scalar(candidate, type_).as_py()
            except (pa.ArrowException, ValueError, TypeError, OverflowError):
                continue


def _candidates(value: Any, type_: pa.DataType) -> Iterator[object]:
    is_text = isinstance(value, str)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        text = str(value) if isinstance(value, str | int | Decimal | uuid.UUID) and not isinstance(value, bool) else ""
        yield from {text, _nfc(text), unicodedata.normalize("NFD", text)} - {""}
        yield from (key.removeprefix("text:") for key in to_keys(value) if key.startswith("text:") and not is_text)
    elif pa.types.is_boolean(type_):
        yield from [value] if isinstance(value, bool) else [value == "true"] if value in {"true", "false"} else []
    elif pa.types.is_integer(type_) or pa.types.is_decimal(type_):
        number = _to_decimal(value)
        if number is not None:
            yield number if pa.types.is_decimal(type_) else (int(number) if number == number.to_integral() else None)
    elif pa.types.is_floating(type_):
        number = _to_decimal(value)
        yield from [] if number is None else [float(number)]
    elif pa.types.is_date(type_):
        moment = _to_time(value) if is_text else value
        yield moment.date() if isinstance(moment, datetime) else moment if isinstance(moment, date) else None
    elif pa.types.is_timestamp(type_):
        yield from _moments(value, type_)
    else:
        yield from _contents(value)


def _moments(value: Any, type_: pa.DataType) -> Iterator[object]:
    moment = _to_time(value) if isinstance(value, str) else value
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001
    if isinstance(moment, datetime):
        utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        yield utc if type_.tz else utc.replace(tzinfo=None)


def _contents(value: Any) -> Iterator[object]:
    if isinstance(value, str):
        yield value.encode(errors="surrogatepass")
    elif isinstance(value, uuid.UUID):
        yield value.bytes
    elif isinstance(value, bytes | bytearray):
        yield bytes(value)


def _keys_of_text(text: str) -> Iterator[str]:
    yield f"text:{text if text.isascii() else _nfc(text)}"
    stripped = text.strip()
    if stripped[:1] not in _MAY_MEAN_MORE:
        return
    if _NUMBER.fullmatch(stripped):
        yield f"number:{_number(Decimal(stripped))}"
    elif _TIME.fullmatch(stripped) and (moment := _to_time(stripped)) is not None:
        yield f"time:{_time(moment)}" if len(stripped) > len("2000-01-01") else f"date:{stripped}"
    elif stripped.lower() in {"true", "false"}:
        yield f"boolean:{stripped.lower()}"


def _epochs(value: object) -> Iterator[int]:
    """A date or time as change feeds write it: days, or seconds to nanoseconds, since 1970."""
    if isinstance(value, datetime):
        utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        micros = (utc - _EPOCH) // timedelta(microseconds=1)
        if micros:
            yield from (micros // 1_000_000, micros // 1000, micros, micros * 1000)
    elif isinstance(value, date):
        yield (value - _EPOCH.date()).days


def _truncated(value: object) -> Iterator[str]:
    """A time as the statistics of Delta's log have it: the millisecond before and after it."""
    if isinstance(value, datetime) and value.microsecond % 1000:
        before = value.replace(microsecond=value.microsecond // 1000 * 1000)
        yield from (f"time:{_time(before)}", f"time:{_time(before + timedelta(milliseconds=1))}")


def _to_decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    try:
        return Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        return None


def _number(value: float | Decimal) -> str:
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        return str(number)
    if not number:
        return "0"
    if abs(number.adjusted()) > _MOST_DIGITS:
        return str(number.normalize())
    plain = format(number, "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _to_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _time(moment: datetime) -> str:
    utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return utc.isoformat()


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)
