"""Values of callers as plain values: a subclass can say one thing when it is checked, and another when it is written."""

from __future__ import annotations

from math import isfinite
from typing import Any

_DEPTH = 100
"""Deeper values could exhaust the stack of the reader."""
_MOST_VALUES = 1_000_000
_INTEGER_BITS = 2048
"""Python refuses to parse integers of many digits; this is below every limit that it can be set to."""


class NotPlainError(Exception):
    """What is wrong with a value."""


def to_plain_text(value: Any) -> str:
    """The text itself, whatever methods a subclass has."""
    return value if type(value) is str else str.__str__(value)


def to_plain_tuple(value: Any) -> tuple[Any, ...]:
    """The items themselves."""
    return value if type(value) is tuple else tuple(tuple.__iter__(value))


def to_plain_json(value: Any) -> Any:
    """A copy of a JSON value; raises `NotPlainError` when it is not JSON, too deep or too large."""
    return _Copy().copy(value, ())


class _Copy:
    def __init__(self) -> None:
        self._values = 0

    def copy(self, value: Any, above: tuple[int, ...]) -> Any:
        self._values += 1
        if self._values > _MOST_VALUES:
            raise NotPlainError(f"has more than {_MOST_VALUES:,} values")
        if value is None or type(value) is bool:
            return value
        if isinstance(value, str):
            return to_plain_text(value)
        if isinstance(value, int):
            return _integer(int.__int__(value))
        if isinstance(value, float):
            return _finite(float.__float__(value))
        if isinstance(value, dict | list | tuple):
            return self._copy_inside(value, above)
        kind = "None" if value is None else type(value).__name__
        raise NotPlainError(f"must be JSON: text, numbers, booleans, None, lists and objects, not {kind}")

    def _copy_inside(self, value: Any, above: tuple[int, ...]) -> Any:
        if id(value) in above:
            raise NotPlainError("contains itself")
        if len(above) >= _DEPTH:
            raise NotPlainError(f"is nested more than {_DEPTH} levels deep")
        inside = (*above, id(value))
        if not isinstance(value, dict):
            items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
            return [self.copy(item, inside) for item in items]
        copied = {}
        for key, item in dict.items(value):
            if not isinstance(key, str):
                raise NotPlainError("has an object with a key that is not text")
            copied[to_plain_text(key)] = self.copy(item, inside)
        return copied


def _integer(value: int) -> int:
    if value.bit_length() > _INTEGER_BITS:
        raise NotPlainError(f"has an integer of more than {_INTEGER_BITS} bits")
    return value


def _finite(value: float) -> float:
    if not isfinite(value):
        raise NotPlainError("has a number that is not finite")
    return value
