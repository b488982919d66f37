"""Arrow tables as frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def to_frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of an Arrow table. A time without a zone stays one: by itself, Spark would take it for a moment."""
    return session.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
