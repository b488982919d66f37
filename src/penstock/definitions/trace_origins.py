"""Whether a value in a user's function comes from Spark, found from its text: `rates.table("x")` may be another library's."""

from __future__ import annotations

import ast
from contextlib import suppress

from penstock import pipelines
from penstock.definitions.trace_names import Names, UnresolvedError, canonical_name

_MAY_BE_SPARK = ("spark", "delta", "databricks", "sedona", "penstock")
"""What is part of the name of a module that may give a session or a DataFrame of Spark."""
_OTHER = frozenset(
    {"adbc_driver_manager", "boto3", "botocore", "clickhouse_connect", "csv", "dask", "datafusion", "datetime", "decimal",
     "duckdb", "ibis", "json", "logging", "math", "matplotlib", "mysql", "numpy", "oracledb", "os", "pandas", "pathlib",
     "polars", "psycopg", "psycopg2", "pyarrow", "pymongo", "pymssql", "pymysql", "pyodbc", "re", "redis", "requests",
     "scipy", "sklearn", "snowflake", "sqlalchemy", "sqlglot", "sqlite3", "string", "xml", "yaml"}
)  # fmt: skip
"""Libraries whose objects are not Spark's. Any other may give a session: a company's own, or a container that holds one."""


class Origins:
    """Where the values of one function come from."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._asked: set[str] = set()

    def is_spark(self, node: ast.expr) -> bool | None:
        """Whether an expression gives a session or a DataFrame of Spark, or something made of one; None if nobody can tell."""
        if isinstance(node, ast.Name):
            return node.id == "spark" or self._of_name(node)
        if isinstance(node, ast.Attribute):
            return node.attr in {"spark", "sparkSession"} or self._of_attribute(node)
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, ast.Constant | ast.JoinedStr):
            return False
        return self.is_spark(node.value) if isinstance(node, ast.Subscript) else None

    def _of_name(self, node: ast.Name) -> bool | None:
        value = self._names.try_object(node)
        if value is not None:
            return value is pipelines.spark or _judge(canonical_name(value) or canonical_name(type(value)) or "")
        if node.id in self._asked:  # `rows = rows.filter(...)` is what the other assignments make it
            return None
        self._asked.add(node.id)
        try:
            sources = self._names.sources_of(node.id)
            found = {self.is_spark(source) if isinstance(source, ast.expr) else None for source in sources}
        finally:
            self._asked.discard(node.id)
        return True if True in found else False if found == {False} else None

    def _of_attribute(self, node: ast.Attribute) -> bool | None:
        dotted = self._names.dotted(node)
        return self.is_spark(node.value) or (_judge(dotted) if dotted else self.is_spark(node.value))

    def _of_call(self, call: ast.Call) -> bool | None:
        if self._names.try_object(call.func) is pipelines.read:
            return True
        found = self.is_spark(call.func)
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if found is False and any(not self._is_other(argument) for argument in given):
            return None  # a library may give back the frame that it is given
        return found

    def _is_other(self, node: ast.expr) -> bool:
        with suppress(UnresolvedError):
            return all(isinstance(value, str | int | float | None) for value in self._names.values(node))
        return self.is_spark(node) is False


def _judge(name: str) -> bool | None:
    """Whether the member of a module is Spark's: its library is known by its name."""
    library = name.partition(".")[0]
    if library == "pyspark":
        return True
    if any(part in name.lower() for part in _MAY_BE_SPARK):
        return None
    return False if library.lstrip("_") in _OTHER else None
