"""The type of a column of text values: the least one in which every value is what is written, and text in doubt.

`007`, `+7`, `1,5`, `TRUE`, `NaN` and a date in any but the ISO form are text. What is inferred depends on the set of values only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from penstock.model.common_type import MOST_DIGITS
from penstock.model.schema import EXACT_IN_DOUBLE
from penstock.storage.arrow_types import to_arrow_type
from penstock.storage.text.casts import cast_texts

_FIXED = r"0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)[.][0-9]+"
_NUMBER = f"^({_FIXED})$"
_SCIENTIFIC = rf"^({_FIXED}|-?(0|[1-9][0-9]*)([.][0-9]+)?[eE][+-]?[0-9]{{1,3}})$"
_USUAL = 18
"""A decimal has at least so many digits, so that the type need not grow with the next file."""
_SURE_WHOLE, _SURE_DOUBLE = 18, 15
"""Numbers of up to so many digits always fit into 64 bits, or are the shortest text of a double."""
_TEMPORAL = ("date", "timestamp_ntz", "timestamp")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about the values of a column so far."""

    kind: str | None = None
    """`number`, `double` (a number with an exponent), a type that is no number, or None when all values are NULL."""
    before: int = 0
    """The most digits before the decimal point."""
    after: int = 0
    digits: int = 0
    """The most digits in all of a number of a column with exponents."""
    is_long: bool = True
    """All whole numbers fit into 64 bits."""
    is_large: bool = False
    """Some whole number may be too large for a double to hold exactly."""

    @property
    def type(self) -> str | None:
        """The inferred type; None when there is no value."""
        if self.kind != "number":
            return self.kind
        if not self.after and self.is_long:
            return "bigint"
        size = max(self.before + self.after, _USUAL)
        return f"decimal({size},{self.after})" if size <= MOST_DIGITS else "string"


_TEXT = Facts("string")


def join_facts(one: Facts, two: Facts) -> Facts:
    """What is known about the values of both."""
    if one.kind is None or two.kind is None:
        return two if one.kind is None else one
    joined = replace(
        one,
        before=max(one.before, two.before),
        after=max(one.after, two.after),
        digits=max(one.digits, two.digits),
        is_long=one.is_long and two.is_long,
        is_large=one.is_large or two.is_large,
    )
    kinds = {one.kind, two.kind}
    if len(kinds) == 1:
        return joined
    if kinds == {"number", "double"}:
        return replace(joined, kind="double") if joined.before + joined.after <= _SURE_DOUBLE else _TEXT
    return replace(joined, kind="timestamp_ntz") if kinds == {"date", "timestamp_ntz"} else _TEXT


def infer(texts: Any, known: Facts) -> Facts:
    """What these texts add to what is known."""
    if known.kind == "string" or texts.null_count == len(texts):
        return known
    found = _infer_number(texts) or _infer_other(texts, known)
    return join_facts(known, found)


def _infer_number(texts: Any) -> Facts | None:
    sample = _find_sample(texts)
    if not re.match(_SCIENTIFIC, sample):
        return None
    if "." not in sample and (whole := _infer_whole(texts)) is not None:
        return whole
    if not _matches(texts, _NUMBER):
        return _infer_double(texts) if _matches(texts, _SCIENTIFIC) else None
    return _count_digits(texts)


def _count_digits(texts: Any) -> Facts:
    """The most digits before and after the point, of numbers without an exponent."""
    import pyarrow.compute as pc

    size, point = pc.binary_length(texts), pc.find_substring(texts, ".")
    has_point = pc.greater_equal(point, 0)
    whole = pc.subtract(pc.if_else(has_point, point, size), pc.starts_with(texts, "-").cast("int32"))
    after = pc.if_else(has_point, pc.subtract(pc.subtract(size, point), 1), 0)
    before, scale = pc.max(whole).as_py(), pc.max(after).as_py()
    return Facts("number", before, scale, is_long=before <= _SURE_WHOLE, is_large=before > _SURE_DOUBLE)


def _infer_whole(texts: Any) -> Facts | None:
    """Numbers of 64 bits in the one form in which they are written back."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        whole = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    if not pc.all(pc.equal(whole.cast(pa.string()), texts)).as_py():
        return None
    ends = pc.min_max(whole).as_py()
    is_large = ends["max"] > EXACT_IN_DOUBLE or ends["min"] < -EXACT_IN_DOUBLE
    return Facts("number", max(len(str(abs(end))) for end in ends.values()), is_large=is_large)


def _infer_double(texts: Any) -> Facts:
    """A column with exponents is one of doubles if every number is the shortest text of a double."""
    import pyarrow.compute as pc

    if cast_texts(texts, "double") is None:
        return _TEXT
    digits = pc.max(pc.utf8_length(pc.replace_substring_regex(texts, r"[eE].*$|[^0-9]", ""))).as_py()
    return Facts("double", digits=digits) if digits <= _SURE_DOUBLE else _TEXT


def _infer_other(texts: Any, known: Facts) -> Facts:
    import pyarrow as pa
    import pyarrow.compute as pc

    sample = _find_sample(texts)
    if sample in {"true", "false"}:
        is_flag = pc.is_in(texts, value_set=pa.array(["true", "false", None], pa.string()))
        return Facts("boolean") if pc.all(is_flag).as_py() else _TEXT
    if not (sample[4:5] == "-" and sample[:4].isdigit()):
        return _TEXT
    for kind in dict.fromkeys((known.kind if known.kind in _TEMPORAL else "date", *_TEMPORAL)):
        if _are_moments(texts, kind):
            return Facts(kind)
    return _TEXT


def _are_moments(texts: Any, kind: str) -> bool:
    """Whether all are days or times of this kind in the ISO form, with seconds: Arrow's parser accepts no other form."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        found = texts.cast(to_arrow_type(kind))
    except pa.ArrowInvalid:
        return False
    if kind == "date":
        return bool(pc.all(pc.equal(found.cast(pa.string()), texts)).as_py())
    size = pc.binary_length(texts)
    is_whole = pc.greater_equal(size, len("2024-01-31 10:30:00"))
    if kind == "timestamp_ntz":  # a day among times is its midnight
        is_whole = pc.or_(is_whole, pc.equal(size, len("2024-01-31")))
    return bool(pc.all(is_whole).as_py())


def _find_sample(texts: Any) -> str:
    """Some text that is not NULL; there must be one."""
    head = texts[:100].drop_null()
    return str((head if len(head) else texts.drop_null())[0].as_py())


def _matches(texts: Any, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())
