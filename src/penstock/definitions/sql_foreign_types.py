"""Types in casts that Spark does not have, or not in this form. Needs sqlglot's tokens; see `sql_foreign`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokenizer_core import TokenType as T

from penstock.definitions.sql_grammar import Word
from penstock.definitions.sql_places import Places

_INSTEAD = {
    "TEXT": "STRING",
    "CLOB": "STRING",
    "NVARCHAR": "STRING",
    "UUID": "STRING",
    "DATETIME": "TIMESTAMP",
    "JSON": "VARIANT",
    "JSONB": "VARIANT",
    "BLOB": "BINARY",
    "BYTEA": "BINARY",
    "HUGEINT": "DECIMAL(38, 0)",
}
_TEXTS = frozenset({"VARCHAR", "CHAR", "CHARACTER"})
_DECIMALS = frozenset({"DECIMAL", "DEC", "NUMERIC"})
_PARTS = {"ARRAY": "ARRAY<STRING>", "MAP": "MAP<STRING, STRING>", "STRUCT": "STRUCT<a: STRING>"}
_MOST_DIGITS = 38


def find_types(words: Sequence[Word], places: Places) -> Iterator[tuple[Word, str, str | None]]:
    """Each type that cannot be, what is wrong with it, and what helps."""
    for place, word in enumerate(words):
        is_cast = word.before is T.ALIAS and places.function_around(place) in {"CAST", "TRY_CAST"}
        if is_cast or word.before is T.DCOLON:
            yield from _find_mistake(places, place, word)


def _find_mistake(places: Places, place: int, word: Word) -> Iterator[tuple[Word, str, str | None]]:
    name, *following = places.texts(place, 6)
    if following[:2] == ["[", "]"]:
        yield word, "a type cannot end in []", f"write ARRAY<{name}>"
    elif name in _INSTEAD:
        yield word, f"Spark has no type {name}", f"write {_INSTEAD[name]}"
    elif name in _TEXTS and following[0] != "(":
        yield word, f"{name} needs a length", f"write STRING, or {name}(100)"
    elif name in _PARTS and following[0] not in {"<", "<>"}:
        yield word, f"{name} needs the type of its parts", f"for example {_PARTS[name]}"
    elif name in _DECIMALS and following[0] == "(":
        digits, scale = following[1], following[3] if following[2] == "," else "0"
        if digits.isdigit() and int(digits) > _MOST_DIGITS:
            yield word, f"{name} has at most {_MOST_DIGITS} digits", None
        elif digits.isdigit() and scale.isdigit() and int(scale) > int(digits):
            yield word, f"{name}({digits}, {scale}) has more decimals than digits", None
