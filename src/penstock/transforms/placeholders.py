"""Debezium's placeholder for a value that the database did not send, such as an unchanged TOAST column of PostgreSQL.

Debezium writes one text in many forms, because the form must fit the column's type. Taken as a value, it would overwrite
the real one, so every form that cannot be a real value is detected here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

UNAVAILABLE_VALUE = "__debezium_unavailable_value"
"""What Debezium writes unless `unavailable.value.placeholder` of the connector says otherwise."""

_NUMBERS = (T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType)


def is_unavailable(value: Column, type_: T.DataType, placeholder: str) -> Column | None:
    """Whether a value of this type is the placeholder; NULL or false for other values, None where no value can be.

    Booleans, decimals and geometry are not detected: their placeholder is a value that a row may really have.
    """
    match type_:
        case T.StringType():
            return value.isin(*_texts(placeholder))
        case T.BinaryType():
            return value == F.lit(placeholder.encode())
        case T.ArrayType(elementType=element):
            return _is_unavailable_array(value, element, placeholder)
        case T.MapType(keyType=T.StringType(), valueType=T.StringType()):  # an hstore column
            return F.try_element_at(value, F.lit(placeholder)) == placeholder
        case T.StructType() if placeholder in type_.names:  # an hstore column whose type was inferred from JSON
            return value.getField(placeholder).cast("string") == placeholder
    return None


def _is_unavailable_array(value: Column, element: T.DataType, placeholder: str) -> Column | None:
    match element:
        case T.StringType():
            forms = [F.array(F.lit(text)) for text in (*_texts(placeholder), _uuid(placeholder))]
        case T.BinaryType():
            forms = [F.array(F.lit(placeholder.encode()))]
        case _ if isinstance(element, _NUMBERS):
            forms = [F.array(*map(F.lit, _signed_bytes(placeholder))).cast(T.ArrayType(element))]
        case _:
            return None
    return reduce(or_, (value == form for form in forms))


def _texts(placeholder: str) -> tuple[str, ...]:
    """As a text; as bytes, which Kafka's JSON converter gives in base64; and as an hstore, which is JSON by default."""
    encoded = base64.b64encode(placeholder.encode()).decode()
    return placeholder, encoded, json.dumps({placeholder: placeholder}, separators=(",", ":"), ensure_ascii=False)


def _uuid(placeholder: str) -> str:
    """As the only element of an array of UUIDs: Java's name-based UUID."""
    digest = hashlib.md5(placeholder.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def _signed_bytes(placeholder: str) -> list[int]:
    """As an array of numbers: one element for each byte, which Java counts from -128 to 127."""
    return [byte - 256 if byte > 127 else byte for byte in placeholder.encode()]
