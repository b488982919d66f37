"""What the environment sets in a project: `${NAME}` inside values, and `PENSTOCK__A__B` overrides of fields.

    PENSTOCK__STORAGE=s3a://bucket/lake
    PENSTOCK__SPARK__REMOTE=sc://host:15002
    PENSTOCK__VARS__DAYS=7
    PENSTOCK__CONFIGURATION__SPARK__SQL__SHUFFLE__PARTITIONS=8             spark.sql.shuffle.partitions
    PENSTOCK__CONFIGURATION__SPARK__DATABRICKS__DELTA__SNAPSHOT_PARTITIONS=1   spark.databricks.delta.snapshotPartitions
    PENSTOCK__CONFIGURATION__spark__sql__ansi__enabled=true                spark.sql.ansi.enabled

In a Spark setting `__` is a dot, a single `_` before an upper-case word starts a capital letter, and a part with a
lower-case letter in it is used as written; a setting that the file already has is found regardless of case.
Values from the environment are never part of a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from penstock.config.project_shape import PROJECT
from penstock.config.shape import MapOf, Record, has_reference
from penstock.config.yaml_positions import Node, scalar_node
from penstock.errors import ConfigError, Location
from penstock.model.nearest import nearest_names
from penstock.model.references import ReferenceFillError, fill_text

PREFIX = "PENSTOCK__"


def fill_references(node: Node, environment: Mapping[str, str]) -> Node:
    """Fill in `${NAME}` and `${NAME:-default}` in every text below a node; `$${` stands for a literal `${`."""
    if isinstance(node.value, dict):
        return replace(node, value={key: fill_references(part, environment) for key, part in node.value.items()})
    if isinstance(node.value, list):
        return replace(node, value=[fill_references(item, environment) for item in node.value])
    if not has_reference(node):
        return node
    try:
        text = fill_text(node.text, environment)
    except ReferenceFillError as problem:
        raise ConfigError(problem.message, hint=problem.hint, location=node.location) from None
    return replace(node, value=text, text=text, from_environment=True)


def read_overrides(environment: Mapping[str, str], existing: Node) -> Node:
    """Read every `PENSTOCK__...` variable as a layer over the file; `existing` is the content of the file."""
    layer: dict[str, Node] = {}
    for variable in sorted(name for name in environment if name.startswith(PREFIX)):
        location = Location(f"environment variable {variable}")
        path = _to_path(variable, existing, location)
        _put(layer, path, scalar_node(environment[variable], location), location)
    return Node(layer, Location("environment"), from_environment=True)


def read_override(field: str, environment: Mapping[str, str]) -> Node | None:
    """Read the variable that overrides one field without fields below it, if it is set."""
    variable = PREFIX + field.upper()
    if variable not in environment:
        return None
    return scalar_node(environment[variable], Location(f"environment variable {variable}"))


def _to_path(variable: str, existing: Node, location: Location) -> list[str]:
    """The field that a variable leads to, and the one below it, such as `spark`, `remote`."""
    first, *rest = variable.removeprefix(PREFIX).split("__")
    field = first.lower()
    known = [name for name in PROJECT.fields if name not in {"targets", "libraries"}]
    if field not in known:
        raise _unknown(field, known, PREFIX, location)
    shape = PROJECT.fields[field].shape
    if isinstance(shape, MapOf):
        return [field, _to_key(field, rest, existing, location)]
    if isinstance(shape, Record):
        below = "__".join(rest).lower() or shape.short or ""
        if below not in shape.fields:
            raise _unknown(below, shape.fields, f"{PREFIX}{field.upper()}__", location)
        return [field, below]
    if rest:
        raise ConfigError(f"`{field}` has no fields below it", hint=f"set {PREFIX}{field.upper()}", location=location)
    return [field]


def _to_key(field: str, parts: list[str], existing: Node, location: Location) -> str:
    """The key of a Spark setting or of a variable of the project."""
    if not parts or not all(parts):
        raise ConfigError(
            f"it names no entry of `{field}`", hint=f"set {PREFIX}{field.upper()}__NAME", location=location
        )
    entries = existing.mapping.get(field)
    known = entries.mapping if entries else {}
    key = "__".join(parts) if field == "vars" else ".".join(_to_setting_part(part) for part in parts)
    same = [name for name in known if name.lower() == key.lower()]
    if len(same) == 1:
        return same[0]
    return key.lower() if field == "vars" else key


def _to_setting_part(part: str) -> str:
    if part != part.upper():
        return part
    first, *words = part.lower().split("_")
    return first + "".join(word.capitalize() for word in words)


def _put(layer: dict[str, Node], path: list[str], value: Node, location: Location) -> None:
    entries = layer
    for field in path[:-1]:
        entries = entries.setdefault(field, Node({}, location, key_location=location, from_environment=True)).mapping
    if path[-1] in entries:
        raise ConfigError(f"{entries[path[-1]].location} sets the same field", location=location)
    entries[path[-1]] = replace(value, key_location=location)


def _unknown(name: str, known: Iterable[str], prefix: str, location: Location) -> ConfigError:
    names = sorted(known)
    near = [f"; did you mean {prefix}{match.upper()}?" for match in nearest_names(name, names, limit=1)]
    return ConfigError(
        "this field does not exist, or cannot be overridden" + "".join(near),
        hint=f"available: {', '.join(prefix + field.upper() for field in names) or f'nothing below {prefix}'}",
        location=location,
    )
