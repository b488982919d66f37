"""YAML in which every value keeps its line and column, so that an error can name them.

Values follow YAML 1.2 (`no` is text, `22:30` is text) as editors do, not PyYAML's YAML 1.1.
Nothing here knows what a project is; no message quotes a value, which may be a secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from penstock.errors import ConfigError, Location
from penstock.model.project import Scalar

MAX_BYTES = 1_000_000
MAX_DEPTH = 40  # libyaml's composer recurses in C: without a limit a hostile file would end the process

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?\Z")


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the file with its place: a mapping, a list, or a scalar with its text as written."""

    value: dict[str, Node] | list[Node] | Scalar | None
    location: Location
    text: str = ""
    key_location: Location | None = None
    """The place of the key that this value belongs to, if it is part of a mapping."""
    plain: bool = True
    """Whether the scalar was written without quotes, so that its type follows from its text."""
    from_environment: bool = field(default=False)
    """Whether the value came from an environment variable or the command line: it is never shown in a message."""

    @property
    def mapping(self) -> dict[str, Node]:
        """The entries of a mapping; nothing for any other value."""
        return self.value if isinstance(self.value, dict) else {}


def to_scalar(text: str) -> Scalar | None:
    """Give text without quotes its type as YAML 1.2 does: null, true or false, a number, or else the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text) and len(text) < 40:
        return int(text)
    return float(text) if _FLOAT.match(text) else text


def scalar_node(text: str, location: Location) -> Node:
    """Read one value from an environment variable or the command line, typed as YAML would, with optional quotes."""
    stripped = text.strip()
    if len(stripped) >= 2 and stripped[0] == stripped[-1] and stripped[0] in "'\"":
        return Node(stripped[1:-1], location, stripped[1:-1], plain=False, from_environment=True)
    return Node(to_scalar(stripped), location, stripped, from_environment=True)


def read_yaml(file: Path) -> Node:
    """Read a YAML file as nodes with positions; any mistake is a ConfigError that names the place."""
    return parse_yaml(_read_text(file), str(file))


def parse_yaml(text: str, file: str) -> Node:
    """Parse YAML text as nodes with positions; an empty text gives a null node."""
    try:
        _check_depth(text, file)
        root = yaml.compose(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(
            f"this is not valid YAML: {_problem(error)}",
            location=_location(file, mark) if mark else Location(file),
        ) from None
    except yaml.YAMLError as error:
        position = getattr(error, "position", None)
        where = _location_of_offset(file, text, position) if isinstance(position, int) else Location(file)
        raise ConfigError("this is not valid YAML: a character that is not allowed", location=where) from None
    return Node(None, Location(file, 1, 1)) if root is None else _Converter(file).convert(root)


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ConfigError(f"the file cannot be read: {reason}", location=Location(str(file))) from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"the file is larger than {MAX_BYTES:,} bytes", location=Location(str(file)))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", errors="replace")
        raise ConfigError(
            "the file is not UTF-8 text",
            hint="save the file as UTF-8",
            location=_location_of_offset(str(file), before, len(before)),
        ) from None


def _check_depth(text: str, file: str) -> None:
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise ConfigError("values are nested too deeply", location=_location(file, event.start_mark))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _location(file: str, mark: Any) -> Location:
    return Location(file, mark.line + 1, mark.column + 1)


def _location_of_offset(file: str, text: str, offset: int) -> Location:
    before = text[:offset]
    return Location(file, before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def _problem(error: yaml.MarkedYAMLError) -> str:
    """What the parser says, without longer quotes from the file: an unquoted password may look like syntax."""
    text = ", ".join(part for part in (error.problem, error.context) if part)
    return re.sub(r"\s*'[^']{2,}'|\s*\"[^\"]{2,}\"", "", text) or "a syntax error"


class _Loader(_BaseLoader):  # type: ignore[misc]  # the C loader has no type that mypy could see
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # types follow from the text, see to_scalar


class _Converter:
    """Turns PyYAML's nodes into ours: duplicate keys, tags, merge keys (`<<`) and anchors are resolved here."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._done: dict[int, Node] = {}
        self._open: set[int] = set()

    def convert(self, node: yaml.Node) -> Node:
        """Convert a node and all below it; an anchor that is used many times is converted once."""
        if id(node) in self._done:
            return self._done[id(node)]
        where = _location(self._file, node.start_mark)
        if id(node) in self._open:
            raise ConfigError("a YAML anchor contains itself", location=where)
        self._open.add(id(node))
        self._done[id(node)] = converted = self._convert(node, where)
        self._open.discard(id(node))
        return converted

    def _convert(self, node: yaml.Node, where: Location) -> Node:
        kind = "map" if isinstance(node, yaml.MappingNode) else "seq" if isinstance(node, yaml.SequenceNode) else "str"
        if node.tag != _TAG + kind:
            raise ConfigError(
                "YAML tags such as `!name` are not supported",
                hint="put text that starts with `!` in quotes",
                location=where,
            )
        if isinstance(node, yaml.MappingNode):
            return Node(self._entries(node), where)
        if isinstance(node, yaml.SequenceNode):
            return Node([self.convert(item) for item in node.value], where)
        text = str(node.value)
        plain = not getattr(node, "style", None)
        return Node(to_scalar(text) if plain else text, where, text, plain=plain)

    def _entries(self, node: yaml.MappingNode) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            where = _location(self._file, key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.value:
                raise ConfigError("a key is missing before the colon", location=where)
            key = str(key_node.value)
            if key == "<<" and not key_node.style:
                merged.append(value_node)
            elif key in entries:
                first = entries[key].key_location
                line = first.line if first else None
                raise ConfigError(f"`{key}` is given twice, first on line {line}", location=where)
            else:
                entries[key] = replace(self.convert(value_node), key_location=where)
        for value_node in merged:
            for key, value in self._merged(value_node).items():
                entries.setdefault(key, value)
        return entries

    def _merged(self, node: yaml.Node) -> dict[str, Node]:
        """The entries that a merge key (`<<: *base` or `<<: [*a, *b]`) brings in; earlier ones win."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        entries: dict[str, Node] = {}
        for part in parts:
            converted = self.convert(part)
            if not isinstance(converted.value, dict):
                raise ConfigError("`<<` needs a mapping", location=converted.location)
            for key, value in converted.mapping.items():
                entries.setdefault(key, value)
        return entries
