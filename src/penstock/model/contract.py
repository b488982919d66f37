"""What a user declares about a staging table: its columns, renames, and what happens on drift and when files are removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.errors import Location
from penstock.model.text_files import AS_USUAL, TextFiles


class OnDrift(StrEnum):
    """What happens when new files no longer fit and the table cannot be changed in place."""

    EVOLVE = "evolve"
    """Rebuild the table with the least type that holds everything exactly."""
    FAIL = "fail"
    QUARANTINE = "quarantine"
    """Declared columns keep their type; rows with values that do not fit go to the quarantine table."""


class OnRemovedFiles(StrEnum):
    """What happens to the rows of files that were removed from raw."""

    KEEP = "keep"
    REBUILD = "rebuild"
    FAIL = "fail"


class Nested(StrEnum):
    """How structs, arrays and maps are stored."""

    JSON = "json"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A declared column: the least type that it may have, and whether NULL is allowed."""

    type: str | None = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Contract:
    """The declaration of one staging table; everything has a default."""

    columns: Mapping[str, DeclaredColumn] = field(default_factory=dict)
    """By the column's name in the table."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """From a name in raw files to the column's name in the table."""
    on_drift: OnDrift = OnDrift.EVOLVE
    on_removed_files: OnRemovedFiles = OnRemovedFiles.KEEP
    nested: Nested = Nested.JSON
    files: TextFiles = AS_USUAL
    """How CSV and JSON-lines files are read."""
    location: Location | None = None

    def renamed(self, name: str) -> str:
        """The table's name for a column of a raw file."""
        return {old.lower(): new for old, new in self.renames.items()}.get(name.lower(), name)

    def declared(self, name: str) -> DeclaredColumn | None:
        """What is declared about a column of the table."""
        return {known.lower(): column for known, column in self.columns.items()}.get(name.lower())


NO_CONTRACT = Contract()
"""The contract of a table without a declaration."""
