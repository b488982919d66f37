"""What a user gives, as a Spark frame: Spark, pandas and Arrow frames, and lists of dicts. No library is imported to ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import PlainLoadError, SessionError
from penstock.model.nearest import did_you_mean
from penstock.model.schema import Column
from penstock.model.types import normal_type
from penstock.plain_loads.arrow_types import check_names, to_lake_column
from penstock.session.opening import check_delta, find_active_session, is_spark_frame
from penstock.session.settings import CATALOG, EXTENSION

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_HOW = {
    "polars": "give frame.to_arrow()",
    "dask": "give frame.compute()",
    "pyspark.pandas": "give frame.to_spark()",
    "numpy": "give a pandas frame or a list of dicts",
}


def find_session(given: object, spark: SparkSession | None) -> SparkSession:
    """The session of a Spark frame, the one that was given, or the active one; with Delta."""
    session = given.sparkSession if is_spark_frame(given) else spark or find_active_session()  # type: ignore[attr-defined]
    if session is None:
        raise SessionError(
            "there is no active Spark session",
            hint="start one first, or pass spark=...: spark = configure_spark_with_delta_pip(SparkSession.builder"
            f'.config("spark.sql.extensions", "{EXTENSION}").config("spark.sql.catalog.spark_catalog", "{CATALOG}"))'
            ".getOrCreate(), with `from delta import configure_spark_with_delta_pip`",
        )
    check_delta(session)
    return session


def to_spark(given: object, session: SparkSession, what: str) -> DataFrame:
    """The frame on Spark; PlainLoadError when it is something else, or a stream."""
    if is_spark_frame(given):
        frame: DataFrame = given  # type: ignore[assignment]
        if frame.isStreaming:
            raise PlainLoadError(
                "streaming",
                f"{what} is a streaming DataFrame",
                hint="use spark.read, or call the function in foreachBatch with each batch",
            )
        return frame
    from penstock.transforms.arrow import to_frame

    return to_frame(session, to_arrow(given, what))


def to_arrow(given: object, what: str, *, may_leave_out: bool = False) -> pa.Table:
    """A pandas frame, an Arrow table or a list of dicts as a table; PlainLoadError for anything else.

    With `may_leave_out`, keys of dicts whose values are all None are left out.
    """
    library = type(given).__module__
    if library.partition(".")[0] == "pandas" and type(given).__name__ == "DataFrame":
        from penstock.plain_loads import pandas_columns

        return pandas_columns.to_table(given)
    if library.partition(".")[0] == "pyarrow" and type(given).__name__ == "Table":
        return _check_arrow(given)
    if isinstance(given, list | tuple):
        from penstock.plain_loads import python_values

        return python_values.to_table(given, may_leave_out=may_leave_out)
    known = next((hint for name, hint in _HOW.items() if library.startswith(name)), None)
    raise PlainLoadError(
        "frame",
        f"{what} is of type {type(given).__name__}; it must be a DataFrame of Spark or pandas, or a list of dicts",
        hint=known or "build one with spark.createDataFrame or pandas.DataFrame",
    )


def _check_arrow(table: Any) -> pa.Table:
    import pyarrow as pa

    check_names(table.column_names)
    return pa.table({name: to_lake_column(name, table.column(name)) for name in table.column_names})


def columns_of(frame: DataFrame) -> tuple[Column, ...]:
    """The columns of a frame; PlainLoadError for names and types that a table cannot have, and for a frame without columns."""
    check_names(frame.columns)
    if not frame.columns:
        raise PlainLoadError("empty", "the frame has no columns", hint="check what it is made from")
    return tuple(Column(f.name, _to_type(f.name, f.dataType.simpleString()), f.nullable) for f in frame.schema.fields)


def _to_type(name: str, type_: str) -> str:
    try:
        return normal_type(type_)
    except ValueError:
        raise PlainLoadError(
            "column_type", f"column {name!r} is of type {type_}, which a table cannot have", hint="cast it, or drop it"
        ) from None


def find_columns(columns: Iterable[str], names: Sequence[str] | None, what: str) -> tuple[str, ...]:
    """The names as the frame spells them; PlainLoadError for one that it does not have, and for a text instead of a list."""
    if isinstance(names, str):
        raise PlainLoadError("not_a_list", f"{what} must be a list, not the text {names!r}", hint=f"write [{names!r}]")
    known = {column.lower(): column for column in columns}
    found = []
    for name in names or ():
        if not isinstance(name, str) or name.lower() not in known:
            raise missing(str(name), known.values(), what)
        found.append(known[name.lower()])
    if len(set(found)) < len(found):
        raise PlainLoadError("not_a_list", f"{what} names a column twice", hint="name each column once")
    return tuple(found)


def missing(name: str, columns: Iterable[str], what: str) -> PlainLoadError:
    """For a column that a frame does not have."""
    known = list(columns)
    return PlainLoadError(
        "missing_column",
        f"the frame has no column {name!r}, which {what} names{did_you_mean(name, known)}",
        hint=f"it has {', '.join(known)}",
    )
