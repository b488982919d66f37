"""Checking expectations: how many rows fail each one, and which rows may be written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.errors import ExpectationError
from penstock.model.results import ExpectationOutcome
from penstock.model.spec import DatasetSpec, Expectation, OnViolation
from penstock.transforms.expectations import count_violations, is_kept, is_met

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def count_expectations(rows: DataFrame, spec: DatasetSpec) -> tuple[ExpectationOutcome, ...]:
    """Count the rows that fail each expectation in one pass; ExpectationError when a row fails an `expect_or_fail`."""
    if not spec.expectations:
        return ()
    counts = rows.agg(*count_violations(spec.expectations)).collect()[0]
    outcomes = tuple(
        ExpectationOutcome(expectation.name, expectation.on_violation, int(counts[index]))
        for index, expectation in enumerate(spec.expectations)
    )
    broken = [
        f"{expectation.name} ({expectation.condition}): {outcome.violations} rows"
        for expectation, outcome in zip(spec.expectations, outcomes, strict=True)
        if outcome.violations and outcome.on_violation is OnViolation.FAIL
    ]
    if broken:
        raise ExpectationError(
            f"{spec.name}: rows failed expectations: {'; '.join(broken)}; nothing was written",
            hint="fix the source, or use expect_or_drop to write such rows to the quarantine table",
            location=spec.location,
        )
    return outcomes


def is_admitted(expectations: Sequence[Expectation]) -> Column:
    """Rows to write; the write itself fails on a row that fails an `expect_or_fail`, even if the input changed since."""
    must = [expectation for expectation in expectations if expectation.on_violation is OnViolation.FAIL]
    admitted = is_kept(expectations)
    for expectation in must:
        stop = F.raise_error(F.lit(f"a row failed the expectation {expectation.name}")).cast("boolean")
        admitted = F.when(is_met(expectation), admitted).otherwise(stop)
    return admitted
