"""Expectations as columns: which rows fail which. NULL counts as failed, so that a missing value never passes."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.model.spec import Expectation, OnViolation

FAILED = "__failed_expectations"
"""The column of a quarantine table that names the expectations that a row failed."""


def is_met(expectation: Expectation) -> Column:
    """Whether a row meets the expectation; never NULL."""
    return F.coalesce(F.expr(expectation.condition).cast("boolean"), F.lit(False))


def is_kept(expectations: Sequence[Expectation]) -> Column:
    """Whether a row meets every expectation that drops rows."""
    kept = F.lit(True)
    for expectation in expectations:
        if expectation.on_violation is OnViolation.DROP:
            kept = kept & is_met(expectation)
    return kept


def count_violations(expectations: Sequence[Expectation]) -> list[Column]:
    """One aggregate per expectation, in order, named by its position."""
    return [F.count_if(~is_met(expectation)).alias(f"v{index}") for index, expectation in enumerate(expectations)]


def keep_dropped(rows: DataFrame, expectations: Sequence[Expectation]) -> DataFrame:
    """Only the rows that a drop expectation rejects, each with the names of the expectations that it failed."""
    dropping = [e for e in expectations if e.on_violation is OnViolation.DROP]
    broken = F.array(*(F.when(~is_met(e), F.lit(e.name)) for e in dropping)).cast("array<string>")
    failed = F.array_compact(broken)
    return rows.where(~is_kept(expectations)).withColumns({FAILED: failed})
