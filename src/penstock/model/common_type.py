"""The least type that holds the values of several types exactly, and which type changes Delta makes in place.

A function of the *set* of types: the order in which files arrive cannot matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from penstock.model.contract import Nested
from penstock.model.schema import NANOSECONDS
from penstock.model.types import Array, Map, SparkType, Struct, parse_type, to_text

INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = frozenset({"float", "double"})
MOST_DIGITS = 38
_DIGITS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
"""The digits before the decimal point that Delta's type widening requires for each integer type."""
_EXACT_DECIMAL_DIGITS = 15
"""A double holds every whole number of up to this many digits exactly."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def common_type(
    types: Iterable[str], *, is_large: bool = True, is_far: bool = False, nested: Nested = Nested.STRUCT
) -> str:
    """The least type that holds all values of these types exactly.

    `is_large`: some bigint values may lie beyond 2^53; `is_far`: some dates may lie beyond what a timestamp can be.
    With `Nested.JSON`, nested values are text.
    """
    found = {parse_type(text.removesuffix(NANOSECONDS)) for text in types}
    if nested is Nested.JSON:
        found = {type_ if isinstance(type_, str) else "string" for type_ in found}
    return to_text(_common(sorted(found, key=to_text), is_large, is_far))


def _common(types: Sequence[SparkType], is_large: bool, is_far: bool) -> SparkType:
    structs = [type_ for type_ in types if isinstance(type_, Struct)]
    arrays = [type_ for type_ in types if isinstance(type_, Array)]
    maps = [type_ for type_ in types if isinstance(type_, Map)]
    if structs and len(structs) == len(types):
        return _common_struct(structs, is_far)
    if arrays and len(arrays) == len(types):
        return Array(_common([array.element for array in arrays], True, is_far))
    if maps and len(maps) == len(types):
        keys = _common([map_.key for map_ in maps], True, is_far)
        return Map(keys, _common([map_.value for map_ in maps], True, is_far))
    return _common_scalar({type_ if isinstance(type_, str) else "string" for type_ in types}, is_large, is_far)


def _common_struct(structs: Sequence[Struct], is_far: bool) -> Struct:
    names: dict[str, str] = {}
    types: dict[str, list[SparkType]] = {}
    for struct in structs:
        for name, type_ in struct.fields:
            names.setdefault(name.lower(), name)
            types.setdefault(name.lower(), []).append(type_)
    return Struct(tuple((names[key], _common(types[key], True, is_far)) for key in names))


def _common_scalar(types: set[str], is_large: bool, is_far: bool) -> str:
    if len(types) == 1:
        return next(iter(types))
    if "binary" in types:
        return "binary"
    if types <= set(INTEGERS):
        return max(types, key=INTEGERS.index)
    if all(type_ in INTEGERS or type_ in FLOATS or _DECIMAL.fullmatch(type_) for type_ in types):
        return _common_number(types, is_large)
    if types == {"date", "timestamp_ntz"} and not is_far:
        return "timestamp_ntz"
    if types == {"date", "timestamp"} and not is_far:
        return "timestamp"
    return "string"


def _common_number(types: set[str], is_large: bool) -> str:
    if types & FLOATS:
        return "double" if all(_is_exact_in_double(type_, is_large) for type_ in types) else "string"
    before, after = 0, 0
    for type_ in types:
        digits, scale = _digits(type_)
        before, after = max(before, digits - scale), max(after, scale)
    return f"decimal({before + after},{after})" if before + after <= MOST_DIGITS else "string"


def _is_exact_in_double(type_: str, is_large: bool) -> bool:
    """Whether a double holds every number of this type exactly, which it does not for a fraction such as 0.1."""
    if type_ in FLOATS:
        return True
    if type_ == "bigint":
        return not is_large
    digits, scale = _digits(type_)
    return digits <= _EXACT_DECIMAL_DIGITS and scale == 0


def _digits(type_: str) -> tuple[int, int]:
    """How many digits a number of this type has in all, and how many of them are after the decimal point."""
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]), int(match[2])) if match else (_DIGITS[type_], 0)


def widens_in_place(before: str, after: str) -> bool:
    """Whether Delta can change a column from one type to the other without rewriting a data file or losing a value."""
    return _widens(parse_type(before), parse_type(after))


def _widens(before: SparkType, after: SparkType) -> bool:
    if before == after:
        return True
    match before, after:
        case Struct(old), Struct(new):
            known = {name.lower(): type_ for name, type_ in new}
            return all(name.lower() in known and _widens(type_, known[name.lower()]) for name, type_ in old)
        case Array(old_element), Array(new_element):
            return _widens(old_element, new_element)
        case Map(old_key, old_value), Map(new_key, new_value):
            return _widens(old_key, new_key) and _widens(old_value, new_value)
        case str(), str():
            return _widens_scalar(before, after)
    return False


def _widens_scalar(before: str, after: str) -> bool:
    if before in INTEGERS and after in INTEGERS:
        return INTEGERS.index(before) < INTEGERS.index(after)
    if after == "double":
        return before in {"float", "tinyint", "smallint", "int"}
    if (before, after) == ("date", "timestamp_ntz"):
        return True
    if _DECIMAL.fullmatch(after) and (before in INTEGERS or _DECIMAL.fullmatch(before)):
        digits, scale = _digits(before)
        new_digits, new_scale = _digits(after)
        return new_digits - new_scale >= digits - scale and new_scale >= scale
    return False
