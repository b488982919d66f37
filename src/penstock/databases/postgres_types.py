"""What a column of PostgreSQL becomes, and how COPY has to write it so that every value arrives exactly.

Numbers, dates and texts arrive with types of their own. Everything else arrives as the text that PostgreSQL itself would
read back (`pg_dump` relies on it), arrays and composite types as JSON. Some values have no place in Spark, such as infinite
dates: they are refused when they are met (`unfit`), with the column named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import sql

from penstock.databases.contract import SourceColumn

_MOST_DIGITS = 38
_PLAIN = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "oid": "bigint",
    "float4": "float",
    "float8": "double",
    "bytea": "binary",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}
_VECTORS = ("int2vector", "oidvector")
"""Arrays of the system catalogs: they count from 0, and their text is a list of numbers."""
BOUNDS_LOST = "!"
"""What stands for an array that does not count from 1: JSON has no place for that. No JSON text starts like this."""
_YEARS = "({0} >= '0001-01-01' AND {0} < '10000-01-01') IS FALSE"


@dataclass(frozen=True, slots=True)
class NativeType:
    """A type in the words of PostgreSQL's catalog, behind any domains."""

    text: str
    """With its modifiers, such as `numeric(10,2)`."""
    name: str
    is_builtin: bool
    kind: str
    """`b`ase, `c`omposite, `e`num, `r`ange, `m`ultirange or `p`seudo."""
    is_array: bool
    modifier: int
    is_ordered: bool = True
    """Whether its order is the same everywhere, without a collation."""


def to_source_column(name: str, native: NativeType, *, nullable: bool) -> SourceColumn:
    """A column with the type that it has in the lake."""
    if native.kind == "p":
        return SourceColumn(name, native.text, None, nullable, f"{native.text} is a type without values")
    return SourceColumn(name, native.text, to_spark_type(native), nullable)


def to_spark_type(native: NativeType) -> str:
    """The type that holds every value, or every value but those that `unfit` names."""
    if native.is_builtin and native.name == "numeric" and not native.is_array:
        return _decimal(native.modifier) or "string"
    return _PLAIN.get(native.name, "string") if native.is_builtin and not native.is_array else "string"


def _decimal(modifier: int) -> str | None:
    """The decimal for a numeric with precision and scale, as the modifier packs them; None where 38 digits do not hold it."""
    if modifier < 0:
        return None
    packed = modifier - 4
    precision, scale = (packed >> 16) & 0xFFFF, ((packed & 0x7FF) ^ 1024) - 1024
    digits = max(precision, scale) if scale >= 0 else precision - scale
    return f"decimal({digits},{max(0, scale)})" if digits <= _MOST_DIGITS else None


def to_expression(name: str, native: NativeType) -> sql.Composable:
    """How COPY selects the column."""
    column = sql.Identifier("t", name)
    if is_json(native):
        if not native.is_array:
            return sql.SQL("to_json({})::text").format(column)
        return sql.SQL("CASE WHEN {} THEN {} ELSE to_json({})::text END").format(
            _counts_otherwise(column), sql.Literal(BOUNDS_LOST), column
        )
    if native.is_builtin and native.name == "bytea":
        return sql.SQL("encode({}, 'hex')").format(column)
    if native.is_builtin and native.name == "money":  # its text depends on the server's currency
        return sql.SQL("({}::numeric)::text").format(column)
    return column


def to_unfit(name: str, native: NativeType) -> sql.Composable | None:
    """The condition of the values that cannot be loaded; None when all can."""
    column = sql.Identifier("t", name)
    if native.is_array:
        return _counts_otherwise(column) if is_json(native) else None
    if native.is_builtin and native.name in {"date", "timestamp", "timestamptz"}:
        return sql.SQL(_YEARS).format(column)
    if to_spark_type(native).startswith("decimal"):
        return sql.SQL("{} = 'NaN'").format(column)
    return None


def say_unfit(native: NativeType) -> str:
    """What is wrong with values that `to_unfit` finds."""
    if native.is_array:
        return "arrays that do not count from 1"
    return "NaN" if native.name == "numeric" else "infinite, or before year 1 or after 9999"


def is_json(native: NativeType) -> bool:
    """Whether values arrive as JSON."""
    return native.kind == "c" or (native.is_array and native.name not in _VECTORS)


def _counts_otherwise(column: sql.Composable) -> sql.Composable:
    return sql.SQL("replace(array_dims({}), '[1:', '') LIKE '%[%'").format(column)


def from_catalog(fact: dict[str, Any]) -> NativeType:
    """A type from a row of the catalog query."""
    return NativeType(
        fact["native"], fact["type"], fact["builtin"], fact["kind"], fact["array"], fact["modifier"], fact["ordered"]
    )
