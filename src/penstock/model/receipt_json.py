"""Receipts as JSON and back: the fields in the order of their declaration, nothing left out, nothing added."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from penstock.model.receipts import Receipt

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{9})Z")
_SECOND = 1_000_000_000


def to_json(receipt: Receipt) -> dict[str, Any]:
    """A receipt as plain values."""
    made: dict[str, Any] = _to_plain(Receipt, receipt)
    return made


def from_json(value: object) -> Receipt:
    """A receipt from plain values; ValueError when a field is missing, unknown or of another type."""
    made: Receipt = _from_plain(Receipt, value)
    return made


def show_time(nanoseconds: int) -> str:
    """A time as JSON has it: `2026-01-31T12:00:00.000000000Z`."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _read_time(text: object) -> int:
    found = _TIME.fullmatch(_checked(str, text))
    if found is None:
        raise ValueError("not a time")
    return int(datetime.fromisoformat(f"{found[1]}+00:00").timestamp()) * _SECOND + int(found[2])


def _to_plain(hint: Any, value: Any) -> Any:
    if get_origin(hint) is Annotated:
        return show_time(value) if _role(hint) == "time" else str(value)
    if _is_value(hint):
        return {name: _to_plain(inner, getattr(value, name)) for name, inner in _hints(hint).items()}
    if get_origin(hint) is tuple:
        return [_to_plain(get_args(hint)[0], item) for item in value]
    if isinstance(hint, UnionType):
        return None if value is None else _to_plain(_optional(hint), value)
    return value


def _from_plain(hint: Any, value: Any) -> Any:
    if get_origin(hint) is Annotated:
        return _read_time(value) if _role(hint) == "time" else int(_checked(str, value))
    if _is_value(hint):
        given, hints = _checked(dict, value), _hints(hint)
        if given.keys() != hints.keys():
            raise ValueError("other fields than expected")
        return hint(**{name: _from_plain(inner, given[name]) for name, inner in hints.items()})
    if get_origin(hint) is tuple:
        return tuple(_from_plain(get_args(hint)[0], item) for item in _checked(list, value))
    if isinstance(hint, UnionType):
        return None if value is None else _from_plain(_optional(hint), value)
    return _checked(hint, value)


def _checked(kind: Any, value: Any) -> Any:
    if type(value) is not kind:  # not isinstance: True is not a number here
        raise ValueError(f"not of type {kind.__name__}")
    return value


def _is_value(hint: Any) -> bool:
    return is_dataclass(hint)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    found = get_type_hints(kind, include_extras=True)
    return {field.name: found[field.name] for field in fields(kind)}


def _role(hint: Any) -> str:
    return str(get_args(hint)[1])


def _optional(hint: UnionType) -> Any:
    return next(kind for kind in get_args(hint) if kind is not NoneType)
