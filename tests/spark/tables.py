"""What tests on Spark look at tables with: rows and types that can be compared, and names that are forgotten afterwards."""

from __future__ import annotations

import math
from typing import Any


def types_of(rows: Any) -> dict[str, str]:
    """The columns, lower-cased, with their Spark types."""
    return {field.name.lower(): field.dataType.simpleString() for field in rows.schema}


def rows_of(rows: Any) -> list[tuple[Any, ...]]:
    """The rows, columns in the order of their names."""
    found = rows.toArrow()
    names = sorted(found.column_names, key=str.lower)
    return [tuple(row[name] for name in names) for row in found.to_pylist()]


def sort(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows in a fixed order, with values that equal themselves: NaN does not."""
    return sorted((tuple("NaN" if _is_nan(value) else value for value in row) for row in rows), key=repr)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def forget_tables(spark: Any) -> None:
    """Forget the names that a project's runs registered; the next project may have the same ones."""
    for database in ("staging", "main"):
        spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")
