"""Declarations about staging tables, from penstock.yml or a definition file, checked for what contradicts itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.config.yaml_positions import Node
from penstock.errors import ConfigError, DefinitionError, Location
from penstock.model.contract import Contract, DeclaredColumn, Nested, OnDrift, OnRemovedFiles
from penstock.model.names import is_name_part
from penstock.model.types import normal_type
from penstock.pipelines.registry import StagingDeclaration


def read_contracts(root: Node, values: Mapping[str, Any]) -> dict[str, Contract]:
    """The contracts of a project file, of which `values` are already known to have the right shape."""
    nodes = root.mapping["staging"].mapping if values else {}
    contracts: dict[str, Contract] = {}
    for table, given in values.items():
        location = nodes[table].key_location or nodes[table].location
        if table.lower() in contracts:
            raise ConfigError(f"`staging.{table}` is given twice, in other case", location=location)
        contracts[table.lower()] = make_contract(given or {}, f"staging.{table}", location)
    return contracts


def from_declaration(declaration: StagingDeclaration, location: Location) -> tuple[str, Contract]:
    """The table and the contract that a definition file declares; DefinitionError when it says what cannot be."""
    what = f"declare_staging({declaration.table!r})"
    try:
        _check_given(declaration)
        columns = {
            name: dict(column) if isinstance(column, Mapping) else {"type": column}
            for name, column in (declaration.given["columns"] or {}).items()
        }
        contract = make_contract({**declaration.given, "columns": columns}, what, location)
    except ValueError as error:
        raise DefinitionError(
            f"{what}: {error}", hint="docs/staging.md says what can be declared", location=location
        ) from None
    except ConfigError as error:
        raise DefinitionError(error.message, hint=error.hint, location=location) from None
    return declaration.table.lower(), contract


def _check_given(declaration: StagingDeclaration) -> None:
    """ValueError when a value is not of the kind that it must be; what it says is checked after."""
    given = declaration.given
    if not isinstance(declaration.table, str) or not is_name_part(declaration.table):
        raise ValueError("this is no table: use its name in raw, without a database")
    for field_ in ("columns", "renames"):
        if given[field_] is not None and not isinstance(given[field_], Mapping):
            raise ValueError(f"{field_} must be a dictionary")
    for name, column in (given["columns"] or {}).items():
        parts = column if isinstance(column, Mapping) else {"type": column}
        if unknown := parts.keys() - {"type", "required"}:
            raise ValueError(f"a column has no {min(map(str, unknown))!r}, only type and required")
        if not isinstance(parts.get("required", False), bool):
            raise ValueError(f"required of {name!r} must be True or False")
        _check_text(name, parts.get("type", "int"))
    for old, new in (given["renames"] or {}).items():
        _check_text(old, new)
    for field_, choices in (("on_drift", OnDrift), ("on_removed_files", OnRemovedFiles), ("nested", Nested)):
        if given[field_] not in list(choices):
            raise ValueError(f"{field_} must be one of {', '.join(choices)}, not {given[field_]!r}")


def _check_text(*texts: object) -> None:
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{text!r} must be a text that is not empty")


def make_contract(given: Mapping[str, Any], what: str, location: Location) -> Contract:
    """A contract from plain values; ConfigError when its parts do not go together."""
    columns = {
        name: DeclaredColumn(normal_type(c["type"]) if c.get("type") else None, bool(c.get("required", False)))
        for name, c in (given.get("columns") or {}).items()
    }
    renames = dict(given.get("renames") or {})
    _check_columns(columns, given, what, location)
    _check_once(columns, f"{what}.columns", location)
    _check_once(renames, f"{what}.renames", location)
    olds = {old.lower() for old in renames}
    for old, new in renames.items():
        if new.lower() in olds:
            raise ConfigError(
                f"`{what}.renames`: {old} becomes {new}, which is renamed itself",
                hint="name the column's last name for each of its earlier ones",
                location=location,
            )
    for name in columns:
        if name.lower() in olds:
            raise ConfigError(
                f"`{what}`: {name} is declared as a column and renamed",
                hint="declare it by its new name",
                location=location,
            )
    return Contract(
        columns,
        renames,
        OnDrift(given.get("on_drift", OnDrift.EVOLVE)),
        OnRemovedFiles(given.get("on_removed_files", OnRemovedFiles.KEEP)),
        Nested(given.get("nested", Nested.JSON)),
        location,
    )


def _check_columns(
    columns: Mapping[str, DeclaredColumn], given: Mapping[str, Any], what: str, location: Location
) -> None:
    """Refuse declared types that the other settings make impossible."""
    is_json = given.get("nested", Nested.JSON) == Nested.JSON
    sets_aside = given.get("on_drift") == OnDrift.QUARANTINE
    for name, column in columns.items():
        is_nested = "<" in (column.type or "")
        if is_nested and (is_json or sets_aside):
            why = "quarantine judges single values only" if sets_aside else "nested values are kept as JSON text"
            hint = "leave its type out" if sets_aside else "set nested: struct, or declare it as string"
            raise ConfigError(f"`{what}`: {name} cannot be {column.type}: {why}", hint=hint, location=location)
        if sets_aside and column.required and column.type is None:
            raise ConfigError(
                f"`{what}`: {name} is required, so quarantine must know its type",
                hint="add its type",
                location=location,
            )


def _check_once(names: Iterable[str], what: str, location: Location) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise ConfigError(f"`{what}`: {name} is given twice, in other case", location=location)
        seen.add(name.lower())
