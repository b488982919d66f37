"""Keys as text and as keyed hashes, computed by Spark: the one implementation, for tombstones and for rows alike.

A value has one text whatever type its column has after drift: int 42, bigint 42, decimal 42.00 and '42' are the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.model.keys import KeyColumn, NormalForm
from penstock.model.types import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BLOCK = 64
"""Bytes of a block of SHA-256."""
_EXACT_WHOLE = 1e15
"""Below this, a whole number in a double is that number exactly."""
_MARKS = (1 << 20) - 1


@dataclass(frozen=True, slots=True)
class Pads:
    """A secret as HMAC uses it. Both pads reach Spark as rows, never as literals: those would be in its plans and logs."""

    secret_id: str
    inner: bytes
    outer: bytes

    def __repr__(self) -> str:
        return f"Pads({self.secret_id!r})"


def to_pads(secret_id: str, secret: bytes) -> Pads:
    """The pads of a secret (RFC 2104)."""
    padded = (secret if len(secret) <= _BLOCK else hashlib.sha256(secret).digest()).ljust(_BLOCK, b"\0")
    return Pads(secret_id, bytes(byte ^ 0x36 for byte in padded), bytes(byte ^ 0x5C for byte in padded))


def key_text(rows: DataFrame, key: Sequence[KeyColumn]) -> Column:
    """The text of a key: each part with its length, so that no two keys have the same; a NULL part is `n`."""
    parts = []
    for column in key:
        text = normal_text(rows, column)
        part = F.concat(F.lit("v"), F.length(text).cast("string"), F.lit(":"), text)
        parts.append(F.when(text.isNull(), F.lit("n")).otherwise(part))
    return F.concat(*parts)


@dataclass(frozen=True, slots=True, eq=False)
class KeyHash:
    """The keyed hashes of a row's key, as columns."""

    mark: Column
    """20 bits of a fast hash: tells most rows apart from a suppressed key at little cost, and tells nothing about the key."""
    full: Column
    """HMAC-SHA256, in hexadecimal."""


def hash_key(rows: DataFrame, key: Sequence[KeyColumn], pads: Pads) -> KeyHash:
    """The hashes of the key of each row."""
    return hash_text(rows.sparkSession, key_text(rows, key), pads)


def hash_text(session: SparkSession, text: Column, pads: Pads) -> KeyHash:
    """The hashes of a canonical text of a key.

    The pads are scalar subqueries: a join that brings them to every row costs more than the hash itself.
    """
    secret = session.createDataFrame(
        pa.table({"inner": pa.array([pads.inner], pa.binary()), "outer": pa.array([pads.outer], pa.binary())})
    )
    inner, outer = (secret.select(name).scalar() for name in ("inner", "outer"))
    first = F.unhex(F.sha2(F.concat(inner, text.cast("binary")), 256))
    mark = F.xxhash64(inner, text).bitwiseAND(F.lit(_MARKS))
    return KeyHash(mark, F.sha2(F.concat(outer, first), 256))


def normal_text(rows: DataFrame, column: KeyColumn) -> Column:
    """The text of a column's values in its normal form; NULL stays NULL."""
    return _normal(_value_text(rows, column.name), column.normal_form)


def _value_text(rows: DataFrame, name: str) -> Column:
    column = F.col(quote_name(name))
    match rows.select(column).schema.fields[0].dataType:
        case T.DoubleType() | T.FloatType():
            return _double_text(column.cast("double"))
        case T.DecimalType() as type_:
            return _decimal_text(column, type_)
        case T.TimestampType():
            return F.concat(F.unix_micros(column).cast("string"), F.lit("us"))
        case T.TimestampNTZType():
            return F.regexp_replace(column.cast("string"), " 00:00:00$", "")
        case T.BinaryType():
            return F.concat(F.lit("0x"), F.hex(column))
    return column.cast("string")


def _double_text(column: Column) -> Column:
    """A whole number as such; another one exactly, by its bits."""
    is_whole = (F.abs(column) < F.lit(_EXACT_WHOLE)) & (column == F.floor(column))
    return F.when(is_whole, column.cast("bigint").cast("string")).otherwise(F.format_string("%a", column))


def _decimal_text(column: Column, type_: T.DecimalType) -> Column:
    """Without zeros at the end. The text of a number below 0.000001 depends on a setting, so one is added to the fraction."""
    size, one = F.abs(column), F.lit(1).cast("decimal(1,0)")
    sign = F.when(column < 0, F.lit("-")).otherwise(F.lit(""))
    whole = F.floor(size).cast("string")
    if type_.scale == 0:
        return F.concat(sign, whole)
    fraction = F.regexp_replace(F.substring((size % one + one).cast("string"), 2, 40), r"\.?0*$", "")
    return F.concat(sign, whole, fraction)


def _normal(text: Column, form: NormalForm) -> Column:
    match form:
        case NormalForm.LOWER:
            return F.lower(text)
        case NormalForm.TRIM:
            return F.trim(text)
        case NormalForm.NFC:
            composed = F.java_method(F.lit("com.ibm.icu.text.Normalizer"), F.lit("compose"), text, F.lit(False))
            return F.when(text.isNotNull(), composed)
    return text
