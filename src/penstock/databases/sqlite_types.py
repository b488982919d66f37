"""What a column of SQLite becomes. The declared type decides; a value that does not fit is refused, never changed.

SQLite stores any value in any column. So every batch is checked: the kinds of values that a column may hold are named here,
and its values become Arrow only when they are of these kinds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from penstock.databases.contract import SourceColumn

if TYPE_CHECKING:
    import pyarrow as pa

_DECIMAL = re.compile(r"(?:NUMERIC|DECIMAL|NUMBER|DEC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)
_MOST_DIGITS = 38
_EXACT_DIGITS = 15
"""Decimal digits that a double always keeps; with more, it may stand for another number than was written."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How values of a column are loaded."""

    type: str
    storage: tuple[str, ...]
    """What `typeof` may say of its values, beside `null`."""


_INTEGER = Rule("bigint", ("integer",))
_REAL = Rule("double", ("real",))
_TEXT = Rule("string", ("text",))
_BLOB = Rule("binary", ("blob",))
_BOOLEAN = Rule("boolean", ("integer",))
_AS_TEXT = Rule("string", ("text", "integer", "real"))
"""Texts as they are, numbers as the shortest text that denotes them."""


def choose_rule(declared: str) -> Rule:
    """The rule for a declared type; SQLite's own order of words decides."""
    name = declared.upper()
    decimal = _DECIMAL.fullmatch(name.strip())
    if decimal and int(decimal[1]) <= _MOST_DIGITS and int(decimal[2] or 0) <= int(decimal[1]):
        return Rule(f"decimal({int(decimal[1])},{int(decimal[2] or 0)})", ("integer", "real"))
    if "INT" in name:
        return _INTEGER
    if any(word in name for word in ("CHAR", "CLOB", "TEXT")):
        return _TEXT
    if "BLOB" in name:
        return _BLOB
    if any(word in name for word in ("REAL", "FLOA", "DOUB")):
        return _REAL
    return _BOOLEAN if name.strip() in {"BOOL", "BOOLEAN"} else _AS_TEXT


def to_column(name: str, declared: str, *, nullable: bool) -> SourceColumn:
    """A column with the type that it has in the lake."""
    return SourceColumn(name, declared or "no type", choose_rule(declared).type, nullable)


def to_array(values: tuple[Any, ...], rule: Rule) -> pa.Array | None:
    """The values of a column as Arrow; None when one of them does not fit."""
    import pyarrow as pa

    from penstock.storage.arrow_types import to_arrow_type

    kinds = set(map(type, values))
    kinds.discard(type(None))
    if not kinds <= {_PYTHON[each] for each in rule.storage}:
        return None
    given: Any = values
    if rule.type == "boolean":
        if not set(values) <= {0, 1, None}:
            return None
        given = [None if value is None else value == 1 for value in values]
    elif rule.type == "string" and kinds - {str}:
        given = [value if value is None or isinstance(value, str) else repr(value) for value in values]
    elif rule.type.startswith("decimal"):
        given = [None if value is None else _to_decimal(value) for value in values]
    try:
        return pa.array(given, to_arrow_type(rule.type))
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return None


def to_stored(value: Any, rule: Rule) -> tuple[Any, ...]:
    """How a value of the lake may be stored in SQLite, which compares numbers and texts as they are stored.

    Of a number that arrives as text, nobody can tell whether the row has a number or the same text.
    """
    if rule is _AS_TEXT and isinstance(value, str):
        return (value, *_to_numbers(value))
    return (value if value is None or isinstance(value, int | float | str | bytes) else str(value),)


def _to_numbers(text: str) -> tuple[int | float, ...]:
    """The numbers that arrive as this text."""
    found: list[int | float] = []
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if repr(number) == text and (kind is float or -(2**63) <= number < 2**63):
            found.append(number)
    return tuple(found)


_PYTHON = {"integer": int, "real": float, "text": str, "blob": bytes}


def _to_decimal(value: int | float) -> Decimal:
    found = Decimal(value) if isinstance(value, int) else Decimal(repr(value))
    if isinstance(value, float) and found.is_finite() and len(found.normalize().as_tuple().digits) > _EXACT_DIGITS:
        return Decimal("NaN")  # which Arrow refuses: nobody can say which number was meant
    return found
