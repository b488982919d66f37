"""Looking at datasets without a JVM: what there is, what a table holds, how it came to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import StorageError, first_line
from penstock.lake.delta_log import Commit, DamagedLogError, iter_commits, read_columns
from penstock.lake.progress import find_build, read_table_state
from penstock.model.changes import RESERVED
from penstock.model.names import DatasetName
from penstock.model.progress import TableState
from penstock.model.results import Rows
from penstock.model.schema import Schema
from penstock.model.spec import DatasetKind, DatasetSpec
from penstock.storage.files import Files, is_remote


class NeedsSparkError(StorageError):
    """A table has features, such as widened types, that the JVM-free reader does not know."""


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """One dataset as `ls` shows it."""

    name: DatasetName
    kind: DatasetKind
    state: TableState
    last: Commit | None = None
    spec: DatasetSpec | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": str(self.name),
            "kind": self.kind.value,
            "version": self.state.version,
            "updated_at_ms": self.last.timestamp_ms if self.last else None,
            "files_loaded": len(self.state.progress.files) if self.state.progress else 0,
            "damage": self.state.damage.code if self.state.damage else None,
            "tags": list(self.spec.tags) if self.spec else [],
            "location": str(self.spec.location) if self.spec else None,
        }


@dataclass(frozen=True, slots=True)
class DatasetDetails:
    """One dataset as `show` shows it."""

    info: DatasetInfo
    schema: Schema | None
    path: str
    has_quarantine: bool = False

    def to_json(self) -> dict[str, Any]:
        spec = self.info.spec
        progress = self.info.state.progress
        return {
            **self.info.to_json(),
            "path": self.path,
            "comment": spec.layout.comment if spec else None,
            "inputs": [str(name) for name in spec.inputs] if spec else [],
            "columns": self.schema.to_json() if self.schema else [],
            "expectations": [
                {"name": e.name, "condition": e.condition, "on_violation": e.on_violation.value}
                for e in (spec.expectations if spec else ())
            ],
            "files": [
                {"path": entry.file.path, "bytes": entry.file.size, "rows": entry.rows}
                for entry in (progress.files.values() if progress else ())
            ],
            "quarantine": f"{self.info.name.quarantine}" if self.has_quarantine else None,
            "auxiliary": self.auxiliary,
        }

    @property
    def auxiliary(self) -> dict[str, int] | None:
        """The size of what a streaming table remembers beside its rows."""
        progress = self.info.state.progress
        if progress is None or self.info.kind is not DatasetKind.STREAMING_TABLE:
            return None
        parts = progress.segments
        return {"segments": len(parts), "events": sum(p.rows for p in parts), "bytes": sum(p.size for p in parts)}


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One version of a table: when, how, and by which run."""

    commit: Commit
    build_request_id: str | None

    def to_json(self) -> dict[str, Any]:
        rows = self.commit.metrics.get("numOutputRows")
        return {
            "version": self.commit.version,
            "timestamp_ms": self.commit.timestamp_ms,
            "operation": self.commit.operation,
            "rows_written": int(rows) if rows is not None else None,
            "number": self.commit.number,
            "build_request_id": self.build_request_id,
        }


def describe_dataset(files: Files, name: DatasetName, kind: DatasetKind, spec: DatasetSpec | None) -> DatasetInfo:
    """A dataset with its state and its last commit."""
    if kind is DatasetKind.TEMPORARY_VIEW:
        return DatasetInfo(name, kind, TableState(), None, spec)
    state = read_table_state(files, name)
    return DatasetInfo(name, kind, state, _read_last(files, name) if state.exists else None, spec)


def _read_last(files: Files, name: DatasetName) -> Commit | None:
    try:
        return next(iter_commits(files, name.path), None)
    except DamagedLogError:  # the state tells of it
        return None


def detail_dataset(files: Files, info: DatasetInfo, configuration: Mapping[str, str]) -> DatasetDetails:
    """A dataset with its columns and where it lives."""
    quarantined = read_table_state(files, info.name.quarantine).exists
    schema = read_schema(files, info.name, configuration) if info.state.exists else None
    return DatasetDetails(info, schema, files.spark_path(info.name.path), quarantined)


def read_history(files: Files, name: DatasetName, limit: int) -> list[HistoryEntry]:
    """The last versions of a table, newest first."""
    entries: list[HistoryEntry] = []
    for commit in iter_commits(files, name.path):
        if len(entries) >= limit:
            break
        build = find_build(files, name, commit.number) if commit.number is not None else None
        entries.append(HistoryEntry(commit, build))
    return entries


def read_schema(files: Files, name: DatasetName, configuration: Mapping[str, str]) -> Schema | None:
    """The columns of a table: from its newest commit that states them, or from the checkpoint."""
    stated = next((commit.schema_json for commit in iter_commits(files, name.path) if commit.schema_json), None)
    if stated is None:
        stated = _open_table(files, name, configuration).schema().to_json()
    return Schema(tuple(column for column in read_columns(stated) if column.name != RESERVED))


def read_rows(files: Files, name: DatasetName, limit: int, configuration: Mapping[str, str]) -> Rows:
    """A few rows of a table, by the JVM-free Delta reader; NeedsSparkError when that one cannot read it.

    Its query engine, not its pyarrow dataset: that one shows renamed columns as NULL, and its threads may still be at work
    when the process ends, which then crashes.
    """
    import pyarrow as pa
    from deltalake import QueryBuilder

    try:
        query = QueryBuilder().register("shown", _open_table(files, name, configuration))
        table = pa.table(query.execute(f"SELECT * FROM shown LIMIT {int(limit)}").read_all())  # noqa: S608
    except Exception as error:  # noqa: BLE001 - the reader has no error type of its own for tables it cannot read
        raise NeedsSparkError(
            f"{name} cannot be shown without Spark ({first_line(error)})",
            hint="read it in a Spark session by its name",
        ) from None
    shown = table.select([column for column in table.column_names if column != RESERVED])
    return Rows(tuple(shown.column_names), tuple(tuple(row.values()) for row in shown.to_pylist()))


def _open_table(files: Files, name: DatasetName, configuration: Mapping[str, str]) -> Any:
    from deltalake import DeltaTable

    from penstock.storage.files import to_reader_options

    path = files.spark_path(name.path)
    options = to_reader_options(configuration) if is_remote(path) else None
    return DeltaTable(path.removeprefix("file://"), storage_options=options)
