"""Checking definitions against the columns that their inputs will have: Spark analyzes them, nothing is computed or written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.definitions.user_code import UserCode
from penstock.errors import UserCodeError
from penstock.kinds.derived.decide import DerivedItem
from penstock.kinds.derived.load import DerivedLoad, check_layout, open_load
from penstock.kinds.derived.partition_calls import to_sample_call
from penstock.kinds.derived.partition_checks import check_key
from penstock.kinds.derived.values import ResolvedSpec
from penstock.kinds.protocol import PipelineRun
from penstock.lake.planned_lake import NotAnalyzableError, PlannedLake
from penstock.model.dataset import Dataset
from penstock.model.names import DatasetName
from penstock.model.schema import Column, Schema
from penstock.transforms.expectations import count_violations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FOR_WANT_OF_ROWS = (LookupError, ArithmeticError, ValueError, AssertionError)
"""Errors of Python code that looks at rows where there are none."""


def open_analysis(lake: PlannedLake, run: PipelineRun) -> DerivedAnalysis:
    """The analyzer for a plan."""
    return DerivedAnalysis(lake, open_load(lake, run))


@dataclass(frozen=True, slots=True)
class DerivedAnalysis:
    """Analyzes derived datasets of one project."""

    lake: PlannedLake
    load: DerivedLoad
    _known: dict[DatasetName, Schema] = field(default_factory=dict)

    def analyze(self, item: DerivedItem) -> Schema | None:
        """The columns of the table; an error for what `penstock run` would fail with, whatever the rows are."""
        if item.dataset not in self._known:  # a dataset may have an item for each of its partitions
            self._known[item.dataset] = self._analyze(item.work.resolved)
        return self._known[item.dataset]

    def analyze_unread(self, dataset: Dataset) -> None:
        """Check a temporary view that no table reads."""
        self._analyze(dataset.subject)

    def close(self) -> None:
        """Drop the temporary views."""
        self.load.close()

    def _analyze(self, resolved: ResolvedSpec) -> Schema:
        spec = resolved.spec
        with self.load.kept_apart(resolved):
            try:
                sample = to_sample_call(spec.partitioning) if spec.partitioning is not None else ()
                rows = self.load.without_suppressed(spec, self.load.evaluate(spec, *sample))
                with UserCode(self.load.root, spec).boundary("the query" if spec.sql is not None else "your function"):
                    schema = _to_schema(rows)  # over Spark Connect, only this analyzes
            except UserCodeError as error:
                self._check_has_rows(resolved, error)
                raise
            _check_names(resolved, schema)
            check_layout(spec, rows.columns)
            if spec.partitioning is not None:
                check_key(spec, spec.partitioning, rows)
            with UserCode(self.load.root, spec).boundary("an expectation", is_query=False):
                if spec.expectations:
                    _to_schema(rows.agg(*count_violations(spec.expectations)))
            return schema

    def _check_has_rows(self, resolved: ResolvedSpec, error: UserCodeError) -> None:
        """NotAnalyzableError when the function may have failed only because an input has no rows yet."""
        empty = [str(name) for name in resolved.inputs if not self.lake.has_rows(name)]
        cause = error.__cause__
        if empty and resolved.spec.sql is None and cause is not None and _is_for_want_of_rows(cause):
            raise NotAnalyzableError(
                f"its code reads rows of {', '.join(empty)}, which has to be built first"
            ) from None


def _is_for_want_of_rows(cause: BaseException) -> bool:
    if type(cause).__module__.startswith("pyspark"):
        return False
    return isinstance(cause, _FOR_WANT_OF_ROWS) or "NoneType" in str(cause)


def _to_schema(rows: DataFrame) -> Schema:
    return Schema(tuple(Column(f.name, f.dataType.simpleString(), f.nullable) for f in rows.schema.fields))


def _check_names(resolved: ResolvedSpec, schema: Schema) -> None:
    """A table cannot have two columns whose names differ only by case."""
    twice = [name for name, count in Counter(column.key for column in schema.columns).items() if count > 1]
    if twice and not resolved.spec.is_view:
        raise UserCodeError(
            f"{resolved.spec.name} has several columns called {twice[0]}",
            hint="give each its own name with AS, or leave the others out",
            location=resolved.spec.location,
        )
