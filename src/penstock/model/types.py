"""Spark's simple type names as values: `struct<a:int,b:array<string>>` becomes a tree that can be walked and rebuilt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

SparkType: TypeAlias = "str | Struct | Array | Map"
"""A scalar is its own name, such as `bigint` or `decimal(10,2)`."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields, in order."""

    fields: tuple[tuple[str, SparkType], ...]


@dataclass(frozen=True, slots=True)
class Array:
    """Values of one type."""

    element: SparkType


@dataclass(frozen=True, slots=True)
class Map:
    """Keys and values."""

    key: SparkType
    value: SparkType


def parse_type(text: str) -> SparkType:
    """Parse a type; ValueError says what is wrong with it."""
    parser = _Parser(text)
    found = parser.read_type()
    if parser.place != len(text):
        raise ValueError(f"{text[parser.place :]!r} follows the type in {text!r}")
    return found


def to_text(type_: SparkType) -> str:
    """The simple name of a type, which `parse_type` and Spark read back whatever the names of fields are."""
    match type_:
        case Struct(fields):
            return f"struct<{','.join(f'{_field_name(name)}:{to_text(inner)}' for name, inner in fields)}>"
        case Array(element):
            return f"array<{to_text(element)}>"
        case Map(key, value):
            return f"map<{to_text(key)},{to_text(value)}>"
    return type_


_JSON_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


def type_from_json(type_: Any) -> SparkType:
    """Read a type as Spark and Delta give it in JSON."""
    if isinstance(type_, str):
        return _JSON_NAMES.get(type_, type_)
    if type_["type"] == "array":
        return Array(type_from_json(type_["elementType"]))
    if type_["type"] == "map":
        return Map(type_from_json(type_["keyType"]), type_from_json(type_["valueType"]))
    return Struct(tuple((field["name"], type_from_json(field["type"])) for field in type_.get("fields", ())))


def parts_of(type_: SparkType) -> Iterator[SparkType]:
    """The type itself, and every type inside it at any depth."""
    yield type_
    match type_:
        case Struct(fields):
            inner: tuple[SparkType, ...] = tuple(field for _, field in fields)
        case Array(element):
            inner = (element,)
        case Map(key, value):
            inner = (key, value)
        case _:
            inner = ()
    for part in inner:
        yield from parts_of(part)


def rebuild(type_: SparkType, change: Callable[[SparkType], SparkType]) -> SparkType:
    """The type with every part changed, from the inside out."""
    match type_:
        case Struct(fields):
            return change(Struct(tuple((name, rebuild(inner, change)) for name, inner in fields)))
        case Array(element):
            return change(Array(rebuild(element, change)))
        case Map(key, value):
            return change(Map(rebuild(key, change), rebuild(value, change)))
    return change(type_)


def field_names(type_: SparkType) -> list[str]:
    """The names of the fields at any depth of a type."""
    return [name for part in parts_of(type_) if isinstance(part, Struct) for name, _ in part.fields]


def has_map(type_: SparkType) -> bool:
    """Whether there is a map at any depth of a type: maps have no order."""
    return any(isinstance(part, Map) for part in parts_of(type_))


_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "bool": "boolean",
}
_ALIASES |= {"text": "string", "bytes": "binary", "decimal": "decimal(10,0)", "numeric": "decimal(10,0)"}
_SCALARS = {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double"}
_SCALARS |= {"string", "binary", "date", "timestamp", "timestamp_ntz"}
_DECIMAL = re.compile(r"(?:decimal|numeric)\((\d+)(?:,(\d+))?\)")


def normal_type(text: str) -> str:
    """The canonical spelling of a type that a user wrote; ValueError when the type does not exist."""
    return to_text(rebuild(parse_type(text.strip()), _normal))


def _normal(type_: SparkType) -> SparkType:
    if not isinstance(type_, str):
        return type_
    name = _ALIASES.get(type_, type_)
    if name in _SCALARS:
        return name
    match = _DECIMAL.fullmatch(name)
    digits, scale = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
    if not 1 <= digits <= 38 or scale > digits:
        raise ValueError(f"{type_} is not a type that a table can have")
    return f"decimal({digits},{scale})"


def comparable_type(text: str) -> str:
    """A type without what makes no difference to a table: the order and the case of a struct's fields."""
    return to_text(rebuild(parse_type(text), _comparable))


def _comparable(type_: SparkType) -> SparkType:
    if not isinstance(type_, Struct):
        return type_
    return Struct(tuple(sorted(((name.lower(), inner) for name, inner in type_.fields), key=lambda field: field[0])))


def quote_name(name: str) -> str:
    """A name between backticks."""
    return f"`{name.replace('`', '``')}`"


def _field_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quote_name(name)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def read_type(self) -> SparkType:
        word = self._read_until("<>,(:").strip().lower()
        readers: dict[str, Callable[[], SparkType]] = {
            "struct": self._read_struct,
            "array": self._read_array,
            "map": self._read_map,
        }
        if self._peek() == "<" and word in readers:
            self.place += 1
            return readers[word]()
        if not word or word in readers:
            raise ValueError(f"a type is missing at character {self.place + 1} of {self.text!r}")
        if self._peek() == "(":
            inside = self._read_until(")")
            self._expect(")")
            word += "".join(f"{inside})".split())
        return word

    def _read_struct(self) -> Struct:
        fields: list[tuple[str, SparkType]] = []
        while self._peek() != ">":
            if fields:
                self._expect(",")
            name = self._read_name()
            self._expect(":")
            fields.append((name, self.read_type()))
        self._expect(">")
        return Struct(tuple(fields))

    def _read_array(self) -> Array:
        element = self.read_type()
        self._expect(">")
        return Array(element)

    def _read_map(self) -> Map:
        key = self.read_type()
        self._expect(",")
        value = self.read_type()
        self._expect(">")
        return Map(key, value)

    def _read_name(self) -> str:
        self._skip_spaces()
        if self._peek() != "`":
            return self._read_until(":").strip()
        self.place += 1
        name = ""
        while True:
            name += self._read_until("`")
            self._expect("`")
            if self._peek() != "`":
                return name
            self.place += 1
            name += "`"

    def _read_until(self, stops: str) -> str:
        start = self.place
        while self.place < len(self.text) and self.text[self.place] not in stops:
            self.place += 1
        return self.text[start : self.place]

    def _peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def _skip_spaces(self) -> None:
        while self._peek() == " ":
            self.place += 1

    def _expect(self, sign: str) -> None:
        self._skip_spaces()
        if self._peek() != sign:
            raise ValueError(f"{sign!r} is missing at character {self.place + 1} of {self.text!r}")
        self.place += 1
