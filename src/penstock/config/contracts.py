"""Declarations about staging tables, from penstock.yml or a definition file, checked for what contradicts itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.config.yaml_positions import Node
from penstock.errors import ConfigError, DefinitionError, Location
from penstock.model.contract import Contract, DeclaredColumn, Nested, OnDrift, OnRemovedFiles
from penstock.model.names import is_name_part
from penstock.model.types import normal_type
from penstock.pipelines import StagingDeclaration


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
        if not is_name_part(declaration.table):
            raise ValueError(f"{declaration.table!r} is no table: use its name in raw, without a database")
        columns = {
            str(name): dict(column) if isinstance(column, Mapping) else {"type": column}
            for name, column in (declaration.given["columns"] or {}).items()
        }
        for column in columns.values():
            if unknown := column.keys() - {"type", "required"}:
                raise ValueError(f"a column has no {min(unknown)!r}, only type and required")
        contract = make_contract({**declaration.given, "columns": columns}, what, location)
    except (ValueError, TypeError, AttributeError) as error:
        raise DefinitionError(
            f"{what}: {error}", hint="see docs/staging.md for what can be declared", location=location
        ) from None
    except ConfigError as error:
        raise DefinitionError(error.message, hint=error.hint, location=location) from None
    return declaration.table.lower(), contract


def make_contract(given: Mapping[str, Any], what: str, location: Location) -> Contract:
    """A contract from plain values; ConfigError when its parts do not go together."""
    columns = {
        name: DeclaredColumn(normal_type(c["type"]) if c.get("type") else None, bool(c.get("required", False)))
        for name, c in (given.get("columns") or {}).items()
    }
    renames = dict(given.get("renames") or {})
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


def _check_once(names: Iterable[str], what: str, location: Location) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise ConfigError(f"`{what}`: {name} is given twice, in other case", location=location)
        seen.add(name.lower())
