"""Shapes of values in penstock.yml: one declaration serves the check, the error messages and the JSON Schema.

It replaces a model library because every command loads the project, and importing such a library costs more CPU time
than everything else in this room together (docs/decisions/0002-own-shape-check.md).
A message shows a value only if it was written in the file and the shape is not `private`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from penstock.config.yaml_positions import Node, to_scalar
from penstock.errors import ConfigError, Location
from penstock.model.nearest import did_you_mean
from penstock.model.project import Scalar

Problem = Callable[[str], str | None]
"""Says what is wrong with a text, without quoting it, or returns None if it is valid."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty and has no line break."""

    problem: Problem | None = None
    choices: tuple[str, ...] = ()
    private: bool = False
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, one or more."""

    most: int


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""


@dataclass(frozen=True, slots=True)
class AnyScalar:
    """A text, number, true or false; `as_text` keeps it as text, as Spark settings are."""

    as_text: bool = False
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one shape; with `or_one`, a single value stands for a list with only this value."""

    item: Shape
    or_one: bool = False


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping with names that the user chooses."""

    value: Shape
    what: str
    problem: Problem | None = None
    known: Mapping[str, Shape] = field(default_factory=dict)
    """The shapes of values of names that have a meaning of their own."""


@dataclass(frozen=True, slots=True)
class Field:
    """A named part of a record, with its meaning in the user's words."""

    shape: Shape
    description: str
    required: bool = False
    default: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known fields; `short` names the field that a bare text stands for."""

    fields: Mapping[str, Field]
    short: str | None = None
    exclusive: tuple[str, str] | None = field(default=None)


Shape = Text | Whole | Flag | AnyScalar | ListOf | MapOf | Record
Plain = Scalar | list["Plain"] | dict[str, "Plain"]


def has_reference(node: Node) -> bool:
    """Tell whether the text still has a `${...}` to be filled in from the environment."""
    return "${" in node.text and not node.from_environment


def check(node: Node, shape: Shape, path: str) -> None:
    """Check a part of the file before variables are filled in; a value with `${...}` is checked later, when it is filled in."""
    to_plain(node, shape, path, before_references=True)


def to_plain(node: Node, shape: Shape, path: str, *, before_references: bool = False) -> Plain:
    """Check a value against its shape and give plain data; any mistake is a ConfigError that names the place."""
    match shape:
        case Record():
            return _record(node, shape, path, before_references)
        case MapOf():
            return _map(node, shape, path, before_references)
        case ListOf():
            return _list(node, shape, path, before_references)
        case _:
            return _scalar(node, shape, path, before_references)


def _record(node: Node, shape: Record, path: str, before_references: bool) -> dict[str, Plain]:
    if shape.short and not isinstance(node.value, dict | list) and node.value is not None:
        short = shape.fields[shape.short].shape
        return {shape.short: to_plain(node, short, path, before_references=before_references)}
    entries = _entries(node, path, f"a mapping with the fields {_listed(shape.fields)}")
    for key, value in entries.items():
        if key not in shape.fields:
            refuse_unknown_field(key, shape, path, value.key_location or value.location)
    if shape.exclusive and all(key in entries for key in shape.exclusive):
        first, second = (_join(path, key) for key in shape.exclusive)
        location = entries[shape.exclusive[1]].key_location
        raise ConfigError(f"`{first}` and `{second}` cannot be given together", location=location)
    for key, part in shape.fields.items():
        if part.required and key not in entries and not before_references:
            raise ConfigError(f"the field `{_join(path, key)}` is missing", location=node.location)
    return {
        key: to_plain(value, shape.fields[key].shape, _join(path, key), before_references=before_references)
        for key, value in entries.items()
    }


def refuse_unknown_field(key: str, shape: Record, path: str, location: Location) -> NoReturn:
    """Report an unknown field, and suggest the nearest one."""
    where = f" in `{path}`" if path else ""
    raise ConfigError(
        f"unknown field `{key}`{where}{did_you_mean(key, shape.fields)}",
        hint=f"known fields: {', '.join(sorted(shape.fields))}",
        location=location,
    )


def _map(node: Node, shape: MapOf, path: str, before_references: bool) -> dict[str, Plain]:
    entries = _entries(node, path, f"a mapping from {shape.what} to values")
    for key, value in entries.items():
        problem = shape.problem(key) if shape.problem else None
        if problem:
            raise ConfigError(f"`{key}` in `{path}` {problem}", location=value.key_location or value.location)
    return {
        key: to_plain(value, shape.known.get(key, shape.value), _join(path, key), before_references=before_references)
        for key, value in entries.items()
    }


def _entries(node: Node, path: str, wanted: str) -> dict[str, Node]:
    if node.value is None and not node.from_environment:
        return {}  # `vars:` with everything below it commented out
    if not isinstance(node.value, dict):
        _refuse(node, path, f"must be {wanted}")
    return node.value


def _list(node: Node, shape: ListOf, path: str, before_references: bool) -> list[Plain]:
    if not isinstance(node.value, list):
        if shape.or_one and not isinstance(node.value, dict):
            return [to_plain(node, shape.item, path, before_references=before_references)]
        _refuse(node, path, "must be a list")
    items = enumerate(node.value, start=1)
    return [to_plain(item, shape.item, f"{path}[{n}]", before_references=before_references) for n, item in items]


def _scalar(node: Node, shape: Text | Whole | Flag | AnyScalar, path: str, before_references: bool) -> Scalar:
    if isinstance(node.value, dict | list):
        _refuse(node, path, f"must be {_wanted(shape)}, not a {'mapping' if isinstance(node.value, dict) else 'list'}")
    if before_references and has_reference(node):
        return node.text
    if node.value is None and (node.plain or not node.text):
        _refuse(node, path, "has no value", "give it a value, or remove it")
    match shape:
        case Text():
            return _text(node, shape, path)
        case Whole():
            return _whole(node, shape, path)
        case Flag():
            return _flag(node, path)
    if problem := shape.problem(node.text) if shape.problem else None:
        _refuse(node, path, problem)
    value = to_scalar(node.text) if node.plain else node.text
    if shape.as_text and not isinstance(value, bool):
        return node.text
    return str(value).lower() if shape.as_text else value if value is not None else ""


def _text(node: Node, shape: Text, path: str) -> str:
    if not isinstance(node.value, str) and not node.from_environment:
        _refuse(node, path, "must be text", "put it in quotes")
    text = node.text
    if not text.strip():
        _refuse(node, path, "is empty")
    if any(ord(character) < 32 for character in text):
        _refuse(node, path, "contains a line break or a control character")
    if shape.choices and text not in shape.choices:
        _refuse(node, path, f"must be one of {_listed(shape.choices)}", shown=not shape.private)
    problem = shape.problem(text) if shape.problem else None
    if problem:
        _refuse(node, path, problem, shown=not shape.private)
    return text


def _whole(node: Node, shape: Whole, path: str) -> int:
    value = to_scalar(node.text) if node.from_environment else node.value
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(node, path, f"must be {_wanted(shape)}", shown=True)
    if not 1 <= value <= shape.most:
        _refuse(node, path, f"must be between 1 and {shape.most}", shown=True)
    return value


def _flag(node: Node, path: str) -> bool:
    value = to_scalar(node.text) if node.from_environment else node.value
    if not isinstance(value, bool):
        _refuse(node, path, "must be true or false", shown=True)
    return value


def _refuse(node: Node, path: str, problem: str, hint: str | None = None, *, shown: bool = False) -> NoReturn:
    value = f" (it is `{node.text}`)" if shown and not node.from_environment and len(node.text) <= 80 else ""
    subject = f"`{path}`" if path else "the project file"
    raise ConfigError(f"{subject} {problem}{value}", hint=hint, location=node.location)


def _wanted(shape: Text | Whole | Flag | AnyScalar) -> str:
    words = {Text: "text", Whole: "a whole number", Flag: "true or false", AnyScalar: "a single value"}
    return words[type(shape)]


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _listed(names: Mapping[str, object] | tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
