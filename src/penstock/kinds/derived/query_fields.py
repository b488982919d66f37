"""The fields of a query that `spark.sql` fills in, `spark.sql("SELECT * FROM {rows}", rows=frame)`, before it is read."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Query:
    """A query whose fields are filled in as Spark does, but that DataFrames and columns have names of ours."""

    text: str
    given: Mapping[str, Any] = field(default_factory=dict)
    """The DataFrames and columns, by these names: they are not names of tables."""

    def with_fields(self, text: str) -> tuple[str, dict[str, Any]]:
        """A text made of this one for `spark.sql`: with fields instead of our names, and what to fill them in with."""
        for name in self.given:
            text = text.replace(name, f"{{{name}}}")
        return text, dict(self.given)


def fill_fields(text: str, values: Mapping[str, Any]) -> Query:
    """The query that Spark will see. A text that cannot be filled in stays as it is: Spark says what is wrong."""
    if not values:
        return Query(text)
    fields = _Fields()
    try:
        return Query(fields.vformat(text, (), values), fields.given)
    except Exception:  # noqa: BLE001 - whatever a user's value raises when it is formatted
        return Query(text)


class _Fields(string.Formatter):
    """PySpark's own formatter, without temporary views."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, int | str]:
        value, first = super().get_field(field_name, args, kwargs)
        if type(value).__module__.startswith("pyspark.sql"):
            name = f"penstock_field_{len(self.given)}_"
            self.given[name] = value
            return name, first
        return (_to_literal(value) if isinstance(value, str) else value), first


def _to_literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
