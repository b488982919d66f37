"""Inspecting the columns of tables without a JVM: now, the difference between two versions, and their history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import UsageError
from penstock.inspect.datasets import DatasetInfo
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
            "timestamp_ms": self.commit.timestamp_ms,
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
    _, schema = next(_iter_schemas(files, info.name), (None, Schema(())))
    return TableSchema(info.name, version, schema)


def read_schema_history(files: Files, name: DatasetName) -> list[SchemaVersion]:
    """The versions that changed the columns, newest first."""
    found: list[SchemaVersion] = []
    before: Schema | None = None
    for commit, schema in reversed(list(_iter_schemas(files, name))):
        changes = diff_tables(before, schema) if before is not None else ()
        if before is None or changes:
            found.append(SchemaVersion(commit, schema, changes))
        before = schema
    return found[::-1]


def diff_versions(files: Files, name: DatasetName, before: int | None, after: int | None) -> tuple[ColumnChange, ...]:
    """How the columns of two versions differ."""
    return diff_tables(_schema_at(files, name, before or 0), _schema_at(files, name, after))


def _schema_at(files: Files, name: DatasetName, version: int | None) -> Schema:
    schemas = list(_iter_schemas(files, name))
    newest = next((commit.version for commit in iter_commits(files, name.path)), -1)
    if version is not None and version > newest:
        raise UsageError(f"{name} has no version {version}", hint=f"its newest version is {newest}")
    found = next((schema for commit, schema in schemas if version is None or commit.version <= version), None)
    if found is None:
        raise UsageError(
            f"the columns of version {version} of {name} are no longer known",
            hint=f"the oldest known version is {schemas[-1][0].version}" if schemas else None,
        )
    return found


def _iter_schemas(files: Files, name: DatasetName) -> Iterator[tuple[Commit, Schema]]:
    """Commits that state the columns, newest first; the progress manifest of a load has the renames."""
    for commit in iter_commits(files, name.path):
        columns = commit.columns
        if columns is None:
            continue
        meant = find_schema(files, name, commit.number) if commit.number is not None else None
        sources = {column.key: column.sources for column in meant.columns} if meant else {}
        yield (
            commit,
            Schema(tuple(replace(c, sources=sources.get(c.key, frozenset({c.key}))) for c in columns)),
        )
