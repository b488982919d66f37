"""Values of partition columns that a Delta table cannot keep: its log has them as texts, in which an empty text means NULL."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.model.partitions.refs import NULL_FOLDER
from penstock.model.spec import UNSTORABLE_PARTITION
from penstock.model.types import quote_name


def refuse_unstorable(rows: DataFrame, partitioned_by: Sequence[str]) -> DataFrame:
    """The rows; writing them fails if a partition column has a value that would be read back as another one."""
    names = {name.strip("`").lower() for name in partitioned_by}
    checked = {
        field.name: _or_error(F.col(quote_name(field.name)), field)
        for field in rows.schema.fields
        if field.name.lower() in names and isinstance(field.dataType, T.StringType | T.BinaryType)
    }
    return rows.withColumns(checked) if checked else rows


def _or_error(value: Column, field: T.StructField) -> Column:
    message = F.lit(f"{UNSTORABLE_PARTITION}[{field.name}]")
    return F.when(_is_unstorable(value), F.raise_error(message).cast(field.dataType)).otherwise(value)


def _is_unstorable(value: Column) -> Column:
    """Spark's texts may have any bytes, as binary values do; those that are not text are others when they are read back."""
    as_text = value.cast("string")
    return as_text.isin("", NULL_FOLDER) | ~F.is_valid_utf8(as_text)
