"""Declarations that a definition file makes: about staging tables, as contracts, and about tables that hold a subject."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError, DefinitionError, Location
from penstock.model.contract import Contract, Nested, OnDrift, OnRemovedFiles
from penstock.model.contract_rules import make_contract
from penstock.model.erasure import ErasableTable, to_erasable
from penstock.model.names import is_name_part
from penstock.model.text_files import OnBadRow
from penstock.pipelines.registry import ErasableDeclaration, StagingDeclaration


def from_declaration(declaration: StagingDeclaration, location: Location) -> tuple[str, Contract]:
    """The table and the contract that a definition file declares; DefinitionError if the declaration is invalid."""
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
            f"{what}: {error}", hint="docs/staging.md lists what can be declared", location=location
        ) from None
    except ConfigError as error:
        raise DefinitionError(error.message, hint=error.hint, location=location) from None
    return declaration.table.lower(), contract


def to_erasable_table(declaration: ErasableDeclaration, database: str, location: Location) -> ErasableTable:
    """Where a subject is in a table; DefinitionError if the declaration is invalid."""
    try:
        for what in ("table", "subject"):
            if not isinstance(getattr(declaration, what), str) or not getattr(declaration, what).strip():
                raise ValueError(f"{what} must be a name")
        return to_erasable(declaration.subject, declaration.table, declaration.given, database, location)
    except ValueError as error:
        raise DefinitionError(
            f"erasable({declaration.table!r}): {error}",
            hint='write dp.erasable("staging.customers", subject="customer", key="customer_id", personal=["email"])',
            location=location,
        ) from None


def _check_given(declaration: StagingDeclaration) -> None:
    """Raise ValueError for a value of the wrong type; its meaning is checked later."""
    given = declaration.given
    if not isinstance(declaration.table, str) or not is_name_part(declaration.table):
        raise ValueError("the table must be a name from raw, without a database")
    for field_ in ("columns", "renames", "files"):
        if given[field_] is not None and not isinstance(given[field_], Mapping):
            raise ValueError(f"{field_} must be a dictionary")
    for name, column in (given["columns"] or {}).items():
        parts = column if isinstance(column, Mapping) else {"type": column}
        if unknown := parts.keys() - {"type", "required"}:
            raise ValueError(f"a column has no setting {min(map(str, unknown))!r}; use type and required")
        if not isinstance(parts.get("required", False), bool):
            raise ValueError(f"required of {name!r} must be True or False")
        _check_text(name, parts.get("type", "int"))
    for old, new in (given["renames"] or {}).items():
        _check_text(old, new)
    _check_files(given["files"] or {})
    for field_, choices in (("on_drift", OnDrift), ("on_removed_files", OnRemovedFiles), ("nested", Nested)):
        if given[field_] not in list(choices):
            raise ValueError(f"{field_} must be one of {', '.join(choices)}, not {given[field_]!r}")


def _check_files(given: Mapping[object, object]) -> None:
    known = {"header": bool, "quoted_null": bool} | dict.fromkeys(
        ("delimiter", "quote", "escape", "encoding", "null_text", "on_bad_row"), str
    )
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"files has no setting {name!r}; use {', '.join(known)}")
        if not isinstance(value, known[str(name)]):
            raise ValueError(f"files: {name} must be {'True or False' if known[str(name)] is bool else 'text'}")
    if given.get("on_bad_row", OnBadRow.FAIL) not in list(OnBadRow):
        raise ValueError(f"files: on_bad_row must be one of {', '.join(OnBadRow)}, not {given['on_bad_row']!r}")


def _check_text(*texts: object) -> None:
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{text!r} must be non-empty text")
