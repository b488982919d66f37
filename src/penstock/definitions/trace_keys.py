"""Keys of values: which calls of a function were looked at. Two values that code may tell apart have two keys."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal
from functools import partial
from pathlib import PurePath
from types import MethodType, NoneType
from typing import Any

_AS_TEXT = frozenset({str, bytes, int, float, bool, NoneType, range, Decimal, dt.date, dt.datetime, dt.time})
_GROUPS = frozenset({list, tuple, set, frozenset})


def key_of(value: Any) -> str:
    """Plain data as text; of other objects, whose text may be anything, which one it is while somebody keeps it."""
    try:
        return _to_key(value)
    except Exception:  # noqa: BLE001
        # A user's object may raise anything when it is looked at; a list may hold itself.
        return f"object {id(value)}"


def _to_key(value: Any) -> str:
    kind = type(value)
    if kind in _AS_TEXT or issubclass(kind, PurePath):
        return repr(value)
    parts = _parts_of(value)
    if parts is None:
        return f"object {id(value)}"
    return f"{kind.__name__} {id(kind)} ({', '.join(map(_to_key, parts))})"


def _parts_of(value: Any) -> list[Any] | None:
    """What a value is made of, if it is only that; such values may be other objects each time that they are asked for."""
    kind = type(value)
    if kind in _GROUPS:
        return sorted(value, key=_to_key) if kind in {set, frozenset} else list(value)
    if kind is dict:
        return [part for item in value.items() for part in item]
    if kind is partial:
        return [value.func, value.args, value.keywords]
    if kind is MethodType:
        return [value.__func__, value.__self__]
    if getattr(getattr(kind, "__dataclass_params__", None), "frozen", False):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return None
