"""From the plain values of a declaration to a contract, checked for contradictions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import ConfigError, Location
from penstock.model.contract import Contract, DeclaredColumn, Nested, OnDrift, OnRemovedFiles
from penstock.model.text_files import make_text_files
from penstock.model.types import normal_type


def make_contract(given: Mapping[str, Any], what: str, location: Location) -> Contract:
    """A contract from plain values; ConfigError when its parts contradict each other."""
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
                f"`{what}.renames`: {old} is renamed to {new}, which is renamed too",
                hint="map each earlier name of the column directly to its final name",
                location=location,
            )
    for name in columns:
        if name.lower() in olds:
            raise ConfigError(
                f"`{what}`: {name} is declared as a column and also renamed",
                hint="declare it by its new name",
                location=location,
            )
    return Contract(
        columns,
        renames,
        OnDrift(given.get("on_drift", OnDrift.EVOLVE)),
        OnRemovedFiles(given.get("on_removed_files", OnRemovedFiles.KEEP)),
        Nested(given.get("nested", Nested.JSON)),
        make_text_files(given.get("files") or {}, what, location),
        location,
    )


def _check_columns(
    columns: Mapping[str, DeclaredColumn], given: Mapping[str, Any], what: str, location: Location
) -> None:
    """Reject declared types that the other settings make impossible."""
    is_json = given.get("nested", Nested.JSON) == Nested.JSON
    sets_aside = given.get("on_drift") == OnDrift.QUARANTINE
    for name, column in columns.items():
        is_nested = "<" in (column.type or "")
        if is_nested and (is_json or sets_aside):
            why = (
                "on_drift: quarantine supports only scalar types"
                if sets_aside
                else "nested values are stored as JSON text"
            )
            hint = "remove its type" if sets_aside else "set nested: struct, or declare it as string"
            raise ConfigError(f"`{what}`: {name} cannot be {column.type}: {why}", hint=hint, location=location)
        if sets_aside and column.required and column.type is None:
            raise ConfigError(
                f"`{what}`: {name} is required, so on_drift: quarantine needs its type",
                hint="add its type",
                location=location,
            )


def _check_once(names: Iterable[str], what: str, location: Location) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise ConfigError(f"`{what}`: {name} is given twice: names are not case-sensitive", location=location)
        seen.add(name.lower())
