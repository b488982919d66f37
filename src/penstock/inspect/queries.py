"""The SQL of a definition as it will run: variables filled in, with the temporary views that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.errors import UsageError
from penstock.kinds.catalog import Catalog
from penstock.model.dataset import Dataset
from penstock.model.spec import DatasetSpec


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query, and the temporary views that it reads, each after those that it reads itself."""

    spec: DatasetSpec
    views: tuple[DatasetSpec, ...]

    @property
    def text(self) -> str:
        """Statements that can be pasted into a Spark shell; a view in Python is only named."""
        return "\n\n".join([*map(_to_statement, self.views), f"{self.spec.sql}"])

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": str(self.spec.name),
            "location": str(self.spec.location),
            "sql": self.spec.sql,
            "views": [
                {"dataset": str(view.name), "location": str(view.location), "sql": view.sql} for view in self.views
            ],
        }


def compile_query(catalog: Catalog, dataset: Dataset) -> CompiledQuery:
    """The SQL of a dataset; UsageError when it has none."""
    spec = dataset.spec
    if spec is not None and spec.function is not None:
        raise UsageError(
            f"{dataset.name} is defined in Python ({spec.location}): its query is known only while it runs",
            hint="compile works for SQL definitions; penstock.testing calls Python ones",
        )
    if spec is None or spec.sql is None:
        raise UsageError(
            f"{dataset.name} is a {dataset.kind.replace('_', ' ')} dataset, which has no query",
            hint="`penstock ls` lists the datasets and their kinds",
        )
    return CompiledQuery(spec, tuple({view.name: view for view in _find_views(catalog, spec)}.values()))


def _find_views(catalog: Catalog, spec: DatasetSpec) -> Iterator[DatasetSpec]:
    for name in spec.inputs:
        view = catalog.datasets[name].spec
        if view is not None and view.is_view:
            yield from _find_views(catalog, view)
            yield view


def _to_statement(view: DatasetSpec) -> str:
    if view.sql is None:
        return f"-- {view.name.name} is a temporary view in Python: {view.location}"
    return f"CREATE OR REPLACE TEMPORARY VIEW {view.name.name} AS\n{view.sql};"
