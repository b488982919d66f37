"""Spark's simple types as Arrow types: how landed files have the columns of a table."""

from __future__ import annotations

import re
from typing import Any

DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def to_arrow_type(type_: str) -> Any:
    """The Arrow type of one of Spark's simple types, such as `decimal(18,2)`."""
    import pyarrow as pa

    decimal = DECIMAL.fullmatch(type_)
    if decimal:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp_ntz": pa.timestamp("us"),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }[type_]
