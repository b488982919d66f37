"""Inspecting the columns of tables without a JVM: now, the difference between two versions, and their history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import UsageError
from penstock.inspect.datasets import DatasetInfo, to_nanoseconds
from penstock.lake.delta_log import Commit, iter_commits
from penstock.lake.manifests import find_schema
from penstock.model.drift import ColumnChange
from penstock.model.names import DatasetName
from penstock.model.schema import Column, Schema
from penstock.model.schema_diff import diff_tables
from penstock.storage.files import Files


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table's columns now, and what source files said about each."""

    name: DatasetName
    version: int
    schema: Schema
    source_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def types_of(self, column: Column) -> list[str]:
        """Every type that a source file gave the column."""
        return list(self.source_types.get(column.key, ()))

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": str(self.name),
            "version": self.version,
            "fingerprint": self.schema.fingerprint,
            "columns": [
                {**shown, "raw_types": self.types_of(column)}
                for shown, column in zip(self.schema.to_json(), self.schema.columns, strict=True)
            ],
        }


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version that changed a table's columns."""

    commit: Commit
    schema: Schema
    column_changes: tuple[ColumnChange, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.commit.version,
            "timestamp": to_nanoseconds(self.commit),
            "operation": self.commit.operation,
            "fingerprint": self.schema.fingerprint,
            "columns": self.schema.to_json(),
            "changes": [change.to_json() for change in self.column_changes],
        }


def describe_schema(files: Files, info: DatasetInfo) -> TableSchema:
    """A table's columns now; where its progress has them, with what source files said about them."""
    version = info.state.version or 0
    if info.state.schema is not None:
        return TableSchema(info.name, version, info.state.schema, info.shown.source_types)
    stated = _list_schemas(files, info.name)
    return TableSchema(info.name, version, stated[0].schema if stated else Schema(()))


def read_schema_history(files: Files, name: DatasetName) -> list[SchemaVersion]:
    """The versions that changed the columns, newest first."""
    found: list[SchemaVersion] = []
    before: Schema | None = None
    for stated in reversed(_list_schemas(files, name)):
        changes = diff_tables(before, stated.linked) if before is not None else ()
        if before is None or changes:
            found.append(SchemaVersion(stated.commit, stated.schema, changes))
        before = stated.schema
    return found[::-1]


def diff_versions(files: Files, name: DatasetName, before: int | None, after: int | None) -> tuple[ColumnChange, ...]:
    """How the columns of two versions differ."""
    return diff_tables(_find_stated(files, name, before or 0).schema, _find_stated(files, name, after).linked)


def _find_stated(files: Files, name: DatasetName, version: int | None) -> _Stated:
    stated = _list_schemas(files, name)
    newest = next((commit.version for commit in iter_commits(files, name.path)), -1)
    if version is not None and version > newest:
        raise UsageError(f"{name} has no version {version}", hint=f"its newest version is {newest}")
    found = next((each for each in stated if version is None or each.commit.version <= version), None)
    if found is None:
        raise UsageError(
            f"the columns of version {version} of {name} are no longer known",
            hint=f"the oldest known version is {stated[-1].commit.version}" if stated else None,
        )
    return found


@dataclass(frozen=True, slots=True)
class _Stated:
    """The columns that a commit states."""

    commit: Commit
    schema: Schema
    linked: Schema
    """The same, each column with its earlier names in the table too."""


def _list_schemas(files: Files, name: DatasetName) -> list[_Stated]:
    """What commits state about the columns, newest first.

    The progress manifest of a load has the renames of raw files; a column that was renamed in place keeps its id in the table.
    """
    found: list[_Stated] = []
    names: dict[int, set[str]] = {}
    for commit in reversed([commit for commit in iter_commits(files, name.path) if commit.schema_json is not None]):
        ids = _read_ids(commit)
        for key, id_ in ids.items():
            names.setdefault(id_, set()).add(key)
        meant = find_schema(files, name, commit.number) if commit.number is not None else None
        sources = {column.key: column.sources for column in meant.columns} if meant else {}
        columns = [replace(c, sources=sources.get(c.key, frozenset({c.key}))) for c in commit.columns or ()]
        gone = {id_: earlier - {column.key for column in columns} for id_, earlier in names.items()}
        linked = (replace(c, sources=c.sources | gone.get(ids.get(c.key, -1), set())) for c in columns)
        found.append(_Stated(commit, Schema(tuple(columns)), Schema(tuple(linked))))
    return found[::-1]


def _read_ids(commit: Commit) -> dict[str, int]:
    """The ids of the columns by their names in lower case; empty for a table without column mapping."""
    fields = json.loads(commit.schema_json or "{}").get("fields", ())
    ids = ((field["name"].lower(), field.get("metadata", {}).get("delta.columnMapping.id")) for field in fields)
    return {name: id_ for name, id_ in ids if isinstance(id_, int)}
