"""Raw columns into a table's columns: every value keeps its exact meaning, whatever type the file gave it.

Expressions depend on the file's type and the table's type alone, never on the session's time zone, so that a row looks
the same whether it came today or in a rebuild.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model.schema import NANOSECONDS, Column, FileColumn, Schema
from penstock.model.types import Array, Map, SparkType, Struct, parse_type, quote_name

_JSON_OPTIONS = (
    "map('ignoreNullFields', 'false', 'timeZone', 'UTC', "
    "'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", 'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)
_TEXTUAL = ("string", "binary")
_NUMBERS = re.compile(r"tinyint|smallint|int|bigint|float|double|decimal\(.*")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def read_type(column: FileColumn) -> str:
    """The type to read a file's column with: nanoseconds come as whole numbers."""
    return "bigint" if column.type.endswith(NANOSECONDS) else column.type


def conform_columns(rows: DataFrame, columns: Sequence[FileColumn], schema: Schema) -> DataFrame:
    """The table's columns, from files with these columns; NULL where the files have none. Loses no value.

    Needs rows read with `read_type`. A value with nanoseconds stops the query: no column can hold it.
    """
    found = match_columns(columns, schema)
    return rows.select(
        *(F.expr(_convert_column(found.get(column.key), column)).alias(column.name) for column in schema.columns)
    )


def match_columns(columns: Sequence[FileColumn], schema: Schema) -> Mapping[str, FileColumn]:
    """The file's column for each of the table's, by the key of the latter."""
    by_name = {column.name.lower(): column for column in columns}
    found = {}
    for column in schema.columns:
        source = next((by_name[name] for name in sorted(column.sources) if name in by_name), None)
        if source is not None:
            found[column.key] = source
    return found


def _convert_column(source: FileColumn | None, column: Column) -> str:
    if source is None:
        return f"CAST(NULL AS {column.type})"
    return convert(quote_name(source.name), source.type, column.type)


def convert(value: str, before: str, after: str) -> str:
    """An expression that gives a value of one type as another that holds it exactly."""
    if before.endswith(NANOSECONDS):
        return _convert_nanoseconds(value, before.removesuffix(NANOSECONDS), after)
    return _convert(value, parse_type(before), parse_type(after))


def _convert(value: str, before: SparkType, after: SparkType, depth: int = 0) -> str:
    if before == after:
        return value
    match before, after:
        case Struct(old), Struct(new):
            known = {name.lower(): (name, type_) for name, type_ in old}
            parts = []
            for name, type_ in new:
                part = f"CAST(NULL AS {_ddl(type_)})"
                if name.lower() in known:
                    old_name, old_type = known[name.lower()]
                    part = _convert(f"{value}.{quote_name(old_name)}", old_type, type_, depth)
                parts.append(f"{_text(name)}, {part}")
            return f"IF({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
        case Array(old_element), Array(new_element):
            item = f"item{depth}"
            return f"transform({value}, {item} -> {_convert(item, old_element, new_element, depth + 1)})"
        case Map(old_key, old_value), Map(new_key, new_value):
            key, item = f"key{depth}", f"item{depth}"
            values = f"transform_values({value}, ({key}, {item}) -> {_convert(item, old_value, new_value, depth + 1)})"
            return f"transform_keys({values}, ({key}, {item}) -> {_convert(key, old_key, new_key, depth + 1)})"
        case _, str():
            return _convert_scalar(value, before, after)
    raise ValueError(f"{before} cannot become {after}")


def _convert_scalar(value: str, before: SparkType, after: str) -> str:
    if after == "binary":
        return f"encode({_to_string(value, before)}, 'UTF-8')"
    if after == "string":
        return _to_string(value, before)
    if before == "date" and after == "timestamp":
        return f"timestamp_micros(CAST(unix_date({value}) AS BIGINT) * 86400000000)"  # midnight in UTC
    return f"CAST({value} AS {after})"


def _to_string(value: str, before: SparkType) -> str:
    if not isinstance(before, str):
        return f"to_json({value}, {_JSON_OPTIONS})"
    if before == "timestamp":
        return f"CONCAT(CAST({_utc(f'unix_micros({value})')} AS STRING), 'Z')"
    return f"CAST({value} AS STRING)"


def _utc(micros: str) -> str:
    """The date and time in UTC of a number of microseconds."""
    seconds = f"CAST(CAST({micros} AS DECIMAL(20, 0)) * 0.000001 AS DECIMAL(18, 6))"
    return f"(TIMESTAMP_NTZ'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {seconds}))"


def _convert_nanoseconds(value: str, before: str, after: str) -> str:
    if after in _TEXTUAL:
        seconds = f"date_format({_utc(f'({value} - pmod({value}, 1000)) DIV 1000')}, 'yyyy-MM-dd HH:mm:ss')"
        zone = ", 'Z'" if before == "timestamp" else ""
        text = f"CONCAT({seconds}, '.', lpad(CAST(pmod({value}, 1000000000) AS STRING), 9, '0'){zone})"
        return text if after == "string" else f"encode({text}, 'UTF-8')"
    micros = f"{value} DIV 1000"
    whole = f"timestamp_micros({micros})" if before == "timestamp" else _utc(micros)
    stop = f"CAST(raise_error('{NANOSECONDS_FOUND}') AS {before})"
    return _convert(f"IF({value} % 1000 <> 0, {stop}, {whole})", before, parse_type(after))


NANOSECONDS_FOUND = "PENSTOCK_NANOSECONDS"
"""What the query says when a timestamp needs nanoseconds."""


def try_convert(value: str, before: str, after: str) -> tuple[str, str]:
    """For a type that need not hold every value: the value if it fits, and the condition that it does."""
    if before.endswith(NANOSECONDS) or "<" in before:
        text = convert(value, before, "string")
        return _try_text(text, after)
    if before == "string":
        return _try_text(value, after)
    if _NUMBERS.fullmatch(before) and _NUMBERS.fullmatch(after):
        tried = f"TRY_CAST({value} AS {after})"
        return tried, f"COALESCE({tried} IS NOT NULL AND TRY_CAST({tried} AS {before}) = {value}, FALSE)"
    return _try_text(convert(value, before, "string"), after)


def _try_text(text: str, after: str) -> tuple[str, str]:
    tried = f"TRY_CAST({text} AS {after})"
    decimal = _DECIMAL.fullmatch(after)
    if decimal is None:
        return tried, f"{tried} IS NOT NULL"
    digits, scale = int(decimal[1]), int(decimal[2])
    exact = f"TRY_CAST({text} AS DECIMAL(38, {38 - digits + scale}))"  # a decimal cast rounds what it cannot hold
    return tried, f"COALESCE({tried} = {exact}, FALSE)"


def admit_columns(
    columns: Sequence[FileColumn], schema: Schema, unsure: AbstractSet[str], required: AbstractSet[str]
) -> tuple[list[SparkColumn], SparkColumn]:
    """The table's columns, and the names of those columns (comma-separated, empty when all is well) whose value does not fit.

    `unsure` holds the keys of columns whose type may not hold every value of the file, `required` those that may not be NULL.
    """
    found = match_columns(columns, schema)
    values, broken = [], []
    for column in schema.columns:
        source = found.get(column.key)
        value, fits = _convert_column(source, column), "TRUE"
        if source is not None and column.key in unsure:
            name = quote_name(source.name)
            value, condition = try_convert(name, source.type, column.type)
            fits = f"({name} IS NULL OR {condition})"
        if column.key in required:
            fits = f"({fits} AND {quote_name(source.name)} IS NOT NULL)" if source is not None else "FALSE"
        values.append(F.expr(value).alias(column.name))
        if fits != "TRUE":
            broken.append(F.when(~F.expr(fits), F.lit(column.name)))
    return values, F.concat_ws(", ", *broken) if broken else F.lit("")


def _ddl(type_: SparkType) -> str:
    from penstock.model.types import to_text

    return to_text(type_)


def _text(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
