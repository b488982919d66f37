"""Texts as values of a type, exactly or not at all. The forms are those in which a load converts text (`transforms.conform`)."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from penstock.storage.arrow_types import DECIMAL, to_arrow_type

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOMENT = f"{_DAY}[ T][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]{{1,6}})?)?"
_WHOLE = "[+-]?[0-9]+"
_FORMS = {
    "boolean": "(?i)true|false",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE),
    **dict.fromkeys(("float", "double"), "[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"),
    "date": _DAY,
    "timestamp_ntz": _MOMENT,
    "timestamp": f"{_MOMENT}(Z|[+-][0-9]{{2}}:[0-9]{{2}})",
}
_FIXED = "[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)"
_SURE_DIGITS = {"float": 6, "double": 15}
"""With at most so many digits, the shortest text of the nearest value is the number that was written."""


def cast_texts(texts: Any, type_: str) -> Any | None:
    """The texts as values of a type; None when one of them is not exactly such a value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if type_ in {"string", "binary"}:
        return texts.cast(to_arrow_type(type_))
    form = _FIXED if DECIMAL.fullmatch(type_) else _FORMS.get(type_)
    if form is None or not _is_all(pc.match_substring_regex(texts, f"^({form})$")):
        return None
    try:
        return _cast_floats(texts, type_) if type_ in _SURE_DIGITS else cast_known(texts, type_)
    except pa.ArrowInvalid:  # out of range, too many digits, no such day
        return None


def cast_known(texts: Any, type_: str) -> Any:
    """Texts that are known to be values of a type, as these values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return texts.cast(to_arrow_type(type_))
    except pa.ArrowInvalid:  # Arrow takes no plus sign before a whole number
        if type_ not in {"tinyint", "smallint", "int", "bigint"}:
            raise
        return pc.replace_substring_regex(texts, "^[+]", "").cast(to_arrow_type(type_))


def find_first_misfit(texts: Any, type_: str) -> int:
    """The place of the first text that is not a value of the type; there must be one."""
    start, end = 0, len(texts)
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (start, middle) if cast_texts(texts[start:middle], type_) is None else (middle, end)
    return start


def _is_all(mask: Any) -> bool:
    import pyarrow.compute as pc

    return pc.all(mask).as_py() is not False


def _cast_floats(texts: Any, type_: str) -> Any | None:
    import pyarrow.compute as pc

    values = texts.cast(to_arrow_type(type_))
    digits = pc.utf8_length(pc.replace_substring_regex(texts, r"[eE].*$|[^0-9]", ""))
    is_sure = pc.and_(pc.less_equal(digits, _SURE_DIGITS[type_]), pc.invert(pc.match_substring_regex(texts, "[eE]")))
    doubted = texts.filter(pc.invert(is_sure))
    found = values.filter(pc.invert(is_sure))
    if all(
        _is_same(text, value) for text, value in zip(doubted.to_pylist(), found.cast("string").to_pylist(), strict=True)
    ):
        return values
    return None


def _is_same(text: str | None, shortest: str | None) -> bool:
    """Whether a number is the one that its nearest value is written as."""
    if text is None or shortest is None:
        return True
    try:
        return Decimal(text) == Decimal(shortest)
    except InvalidOperation:
        return False
