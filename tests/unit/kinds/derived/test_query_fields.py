"""The query that Spark will see when `spark.sql` is called with fields."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.connect.functions import col

from penstock.kinds.derived.query_fields import fill_fields


@pytest.mark.parametrize(
    ("text", "values", "filled"),
    [
        ("SELECT '{x}' FROM a", {}, "SELECT '{x}' FROM a"),
        (
            "SELECT {x}, '{{}}' FROM a LIMIT {n:d}",
            {"x": "it's \\", "n": 4},
            "SELECT 'it\\'s \\\\', '{}' FROM a LIMIT 4",
        ),
        ("SELECT * FROM a WHERE x IN {given[0]}", {"given": [(1, 2)]}, "SELECT * FROM a WHERE x IN (1, 2)"),
        ("SELECT {typo} FROM a", {"x": 1}, "SELECT {typo} FROM a"),
        ("SELECT {x} FROM {", {"x": 1}, "SELECT {x} FROM {"),
        ("SELECT {x:%Y} FROM a", {"x": object()}, "SELECT {x:%Y} FROM a"),
    ],
)
def test_values_are_filled_in_as_spark_does(text: str, values: dict[str, Any], filled: str) -> None:
    query = fill_fields(text, values)
    assert (query.text, query.given) == (filled, {})


def test_what_belongs_to_spark_has_a_name_until_spark_fills_it_in() -> None:
    column = col("id")
    query = fill_fields("SELECT {x}, {n} FROM a", {"x": column, "n": 1})
    assert query.text == "SELECT penstock_field_0_, 1 FROM a"
    assert query.with_fields("SELECT penstock_field_0_, '{{}}' FROM {b}") == (
        "SELECT {penstock_field_0_}, '{{}}' FROM {b}",
        {"penstock_field_0_": column},
    )
