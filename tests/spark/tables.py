"""What tests on Spark look at tables with: rows and types that can be compared, and names that are forgotten afterwards.

Tables are read by delta-rs, in milliseconds; by Spark where a type was widened, which delta-rs cannot read.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tests.projects import query_delta

_SPARK_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def read_table(spark: Any, path: Path | str) -> pa.Table:
    """All rows of a Delta table."""
    table = DeltaTable(str(path))
    if "typeWidening" in (table.protocol().reader_features or ()):
        return spark.read.format("delta").load(str(path)).toArrow()
    return query_delta(path)


def types_of(path: Path | str) -> dict[str, str]:
    """The columns of a Delta table, lower-cased, with their Spark types."""
    fields = json.loads(DeltaTable(str(path)).schema().to_json())["fields"]
    return {field["name"].lower(): _to_spark_type(field["type"]) for field in fields}


def _to_spark_type(type_: Any) -> str:
    if isinstance(type_, str):
        return _SPARK_NAMES.get(type_, type_)
    if type_["type"] == "array":
        return f"array<{_to_spark_type(type_['elementType'])}>"
    if type_["type"] == "map":
        return f"map<{_to_spark_type(type_['keyType'])},{_to_spark_type(type_['valueType'])}>"
    fields = (f"{field['name']}:{_to_spark_type(field['type'])}" for field in type_["fields"])
    return f"struct<{','.join(fields)}>"


def files_of(path: Path | str) -> set[str]:
    """The data files that a Delta table has now."""
    return set(DeltaTable(str(path)).file_uris())


def rows_of(found: pa.Table) -> list[tuple[Any, ...]]:
    """The rows, columns in the order of their names."""
    names = sorted(found.column_names, key=str.lower)
    return [tuple(row[name] for name in names) for row in found.to_pylist()]


def chosen(spark: Any, path: Path | str, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of all rows, in a fixed order; a struct is a tuple, as in Spark's rows."""
    rows = read_table(spark, path).select(list(columns)).to_pylist()
    return sorted((tuple(_to_plain(row[name]) for name in columns) for row in rows), key=repr)


def _to_plain(value: Any) -> Any:
    return tuple(map(_to_plain, value.values())) if isinstance(value, dict) else value


def sort(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows in a fixed order, with values that equal themselves: NaN does not."""
    return sorted((tuple("NaN" if _is_nan(value) else value for value in row) for row in rows), key=repr)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def forget_names(spark: Any) -> None:
    """Forget the names, as a process does that ends; the files of the tables stay."""
    for database in ("staging", "main"):
        if spark.catalog.databaseExists(database):
            views = {row["viewName"] for row in spark.sql(f"SHOW VIEWS IN {database}").collect()}
            for row in spark.sql(f"SHOW TABLES IN {database}").collect():
                what = "VIEW" if row["tableName"] in views else "TABLE"
                spark.sql(f"DROP {what} IF EXISTS {database}.`{row['tableName']}`")


def forget_tables(spark: Any) -> None:
    """Forget the names that a project's runs registered; the next project may have the same ones. Spark removes the files too."""
    for database in ("staging", "main"):
        spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")
