"""Keys of erasure: which columns identify a person in a table, and in which normal form their values are compared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from penstock.model.types import Array, Map, SparkType, Struct

_REFUSED = ("interval", "variant", "void", "object", "geometry", "geography")

_DECIMAL = re.compile(r"decimal\(\d+,\s*(\d+)\)")
_MOST_DIGITS = 36


class NormalForm(StrEnum):
    """What is done to text before it is compared; other types are compared as they are."""

    EXACT = "exact"
    LOWER = "lower"
    TRIM = "trim"
    NFC = "nfc"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a key, by its name as the user writes it."""

    name: str
    normal_form: NormalForm = NormalForm.EXACT


def split_key_text(text: str) -> tuple[str | None, ...]:
    """The parts of a key's canonical text, as `transforms.key_hashes.key_text` makes it; None for a NULL part."""
    parts: list[str | None] = []
    while text:
        if text[0] == "n":
            parts.append(None)
            text = text[1:]
        else:
            size, _, rest = text[1:].partition(":")
            parts.append(rest[: int(size)])
            text = rest[int(size) :]
    return tuple(parts)


def find_key_problem(type_: SparkType) -> str | None:
    """Why values of a type cannot be a key; None when they can."""
    match type_:
        case Struct() | Array() | Map():
            return "a key cannot be a struct, an array or a map"
    name = str(type_)
    if name.startswith(_REFUSED):
        return f"values of type {name} cannot be compared as keys"
    scale = _DECIMAL.fullmatch(name)
    if scale and int(scale[1]) > _MOST_DIGITS:
        return f"a key cannot have more than {_MOST_DIGITS} digits after the point: {name}"
    return None
