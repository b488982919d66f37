"""What `ls`, `show`, `history` and `schema` ask: one opened project, inspected without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.inspect.datasets import (
    DatasetDetails,
    DatasetInfo,
    HistoryEntry,
    count_rows,
    describe_dataset,
    is_built,
    read_history,
)
from penstock.inspect.graphs import DatasetGraph
from penstock.inspect.queries import CompiledQuery, compile_query
from penstock.inspect.readers import find_reader_notes
from penstock.inspect.rows import read_rows
from penstock.inspect.schemas import SchemaVersion, TableSchema, describe_schema, diff_versions, read_schema_history
from penstock.kinds.catalog import Catalog
from penstock.lake.schemas import read_schema
from penstock.model.drift import ColumnChange
from penstock.model.results import Rows

_NOT_BUILT = "build it with `penstock run`"


@dataclass(frozen=True, slots=True)
class Inspector:
    """Inspects the datasets of a catalog."""

    catalog: Catalog

    def datasets(self) -> Sequence[DatasetInfo]:
        """Every dataset of the project, staging tables first."""
        return [describe_dataset(self.catalog, dataset) for dataset in self.catalog.listed()]

    def graph(self) -> DatasetGraph:
        """What reads what, in the order of `datasets`; temporary views too."""
        listed = self.catalog.listed()
        readers = {dataset.name: [spec.name for spec in dataset.readers] for dataset in listed}
        return DatasetGraph({dataset.name: str(dataset.kind) for dataset in listed}, readers)

    def compile(self, name: str) -> CompiledQuery:
        """The SQL of a definition as it will run."""
        return compile_query(self.catalog, self.catalog.find(name))

    def show(self, name: str) -> DatasetDetails:
        """One dataset in detail."""
        info = self._find(name)
        files = self.catalog.workspace.storage
        schema = read_schema(files, info.name) if info.state.exists else None
        rows = count_rows(files, info.name, info.state) if info.state.exists else None
        has_quarantine = is_built(files, info.name.quarantine)
        notes = find_reader_notes(files, info.name) if info.state.exists and not info.state.damage else ()
        return DatasetDetails(info, schema, files.spark_path(info.name.path), has_quarantine, rows, notes)

    def history(self, name: str, limit: int) -> list[HistoryEntry]:
        """The last versions of a dataset's table, newest first."""
        return read_history(self.catalog.workspace.storage, self._find_stored(name).name, limit)

    def rows(self, name: str, limit: int, *, quarantine: bool = False) -> Rows:
        """A few rows of a dataset's table, or of its quarantine table."""
        info = self._find_stored(name)
        table = info.name.quarantine if quarantine else info.name
        if not is_built(self.catalog.workspace.storage, table):
            raise UsageError(
                f"{info.name} has no {'quarantined rows' if quarantine else 'table yet'}",
                hint="no rows were quarantined" if quarantine else _NOT_BUILT,
            )
        return read_rows(self.catalog.workspace, table, limit)

    def schema(self, name: str) -> TableSchema:
        """The columns of a dataset's table."""
        return describe_schema(self.catalog.workspace.storage, self._find_built(name))

    def schema_diff(self, name: str, before: int | None, after: int | None) -> tuple[ColumnChange, ...]:
        """How the columns of two versions of a table differ."""
        return diff_versions(self.catalog.workspace.storage, self._find_built(name).name, before, after)

    def schema_history(self, name: str) -> list[SchemaVersion]:
        """The versions that changed a table's columns, newest first."""
        return read_schema_history(self.catalog.workspace.storage, self._find_built(name).name)

    def _find(self, name: str) -> DatasetInfo:
        return describe_dataset(self.catalog, self.catalog.find(name))

    def _find_stored(self, name: str) -> DatasetInfo:
        return describe_dataset(self.catalog, self.catalog.find_stored(name))

    def _find_built(self, name: str) -> DatasetInfo:
        info = self._find_stored(name)
        if not info.state.exists:
            raise UsageError(f"{info.name} has no table yet", hint=_NOT_BUILT)
        return info
