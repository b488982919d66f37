"""SQL statements about Delta tables, as text: identifiers and literals are quoted by a library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.lake.delta_log import APPLICATION
from penstock.model.spec import TableLayout
from penstock.model.types import SparkType, field_names, parts_of

_NEEDS_COLUMN_MAPPING = frozenset(" ,;{}()\n\t=")
MAPPED = {"delta.columnMapping.mode": "name"}


def needed_properties(columns: SparkType) -> dict[str, str]:
    """The properties that a table needs for these columns. Delta sets the timestampNtz feature for new tables only."""
    needed = dict(MAPPED) if any(_NEEDS_COLUMN_MAPPING & set(name) for name in field_names(columns)) else {}
    return needed | ({"delta.feature.timestampNtz": "supported"} if "timestamp_ntz" in parts_of(columns) else {})


def complete_layout(layout: TableLayout, columns: SparkType) -> TableLayout:
    """The layout with the properties that these columns need; the user's own properties take precedence."""
    properties = needed_properties(columns) | dict(layout.table_properties)
    return replace(layout, table_properties=tuple(properties.items()))


def replace_statement(path: str, number: int, layout: TableLayout) -> str:
    """The one SQL statement that replaces a table; `{rows}` stands for the new rows."""
    properties = dict(layout.table_properties)
    parts = [
        f"CREATE OR REPLACE TABLE delta.{quote(path)} USING DELTA",
        f"OPTIONS ({pairs({'txnAppId': APPLICATION, 'txnVersion': str(number)})})",
    ]
    if layout.partition_cols:
        parts.append(f"PARTITIONED BY ({', '.join(map(quote, layout.partition_cols))})")
    if layout.cluster_by:
        parts.append(f"CLUSTER BY ({', '.join(map(quote, layout.cluster_by))})")
    if layout.comment:
        parts.append(f"COMMENT {text(layout.comment)}")
    if properties:
        parts.append(f"TBLPROPERTIES ({pairs(properties)})")
    head = " ".join(parts).replace("{", "{{").replace("}", "}}")
    return head + " AS SELECT * FROM {rows}"  # noqa: S608 - every part is quoted above


def pairs(values: Mapping[str, str]) -> str:
    """Pairs of an OPTIONS or TBLPROPERTIES clause."""
    return ", ".join(f"{text(key)} = {text(value)}" for key, value in values.items())


def quote(identifier: str) -> str:
    """An identifier, quoted."""
    from sqlglot import exp

    return exp.to_identifier(identifier, quoted=True).sql(dialect="spark")


def text(value: str) -> str:
    """A string literal."""
    from sqlglot import exp

    return exp.Literal.string(value).sql(dialect="spark")


def table_parts(table: str) -> list[str]:
    """The parts of a table's name, such as database and name."""
    from sqlglot import exp

    return [part.name for part in exp.to_table(table, dialect="spark").parts]


def quote_table(table: str) -> str:
    """A table's name, each part quoted."""
    return ".".join(map(quote, table_parts(table)))
