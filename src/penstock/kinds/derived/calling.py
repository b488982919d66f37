"""Calling a Python definition: what it reads is watched, and what it returns must be rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import UserCodeError
from penstock.kinds.derived.query_fields import Query
from penstock.kinds.derived.reads import Instead, watch_reads
from penstock.model.project import Scalar
from penstock.model.spec import DatasetSpec
from penstock.pipelines.registry import Reader, use_reader, use_variables
from penstock.session.opening import is_spark_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WatchingReader(Reader, Protocol):
    """What a definition reads with, and what is asked before it reads in other ways."""

    def check(self, name: str) -> Instead | None:
        """Before `spark.table` and the like."""

    def check_query(self, query: Query) -> Instead | None:
        """Before `spark.sql`."""

    def check_view(self, name: str) -> None:
        """Before a temporary view is made."""


def call_function(
    spec: DatasetSpec, reader: WatchingReader, variables: Mapping[str, Scalar], arguments: Sequence[object] = ()
) -> DataFrame:
    """The rows that a Python definition returns, not yet computed; UserCodeError when it returns something else."""
    with (
        use_reader(reader),
        use_variables(variables),
        watch_reads(reader.session, reader.check, reader.check_query, reader.check_view),
    ):
        rows: Any = spec.function(*arguments) if spec.function else None
    if not is_spark_frame(rows):
        raise _not_rows(spec, rows)
    if rows.isStreaming:
        raise UserCodeError(
            f"{spec.name}: the function returned a streaming DataFrame",
            hint="use spark.read or dp.read instead of readStream",
            location=spec.location,
        )
    frame: DataFrame = rows
    return frame


def _not_rows(spec: DatasetSpec, found: Any) -> UserCodeError:
    library, name = type(found).__module__.partition(".")[0], type(found).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    what = "None" if found is None else f"{article} {name}"
    hint = "return the DataFrame that the dataset should hold"
    if library in {"pandas", "polars", "pyarrow"}:
        what = f"a {library} {name}"
        convert = {"pandas": "rows", "polars": "rows.to_arrow()", "pyarrow": "rows"}[library]
        hint = f"convert it: return dp.spark.createDataFrame({convert})"
    return UserCodeError(
        f"{spec.name}: the function returned {what}, not a Spark DataFrame", hint=hint, location=spec.location
    )
