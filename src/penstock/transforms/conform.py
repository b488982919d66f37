"""Raw columns into a table's columns: every value keeps its exact meaning, whatever type the file gave it.

Expressions depend on the file's type and the table's type alone, never on the session's time zone, so that a row looks
the same whether it came today or in a rebuild.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model.schema import NANOSECONDS, Column, FileColumn, Schema, find_column, index_columns
from penstock.model.types import Array, Map, SparkType, Struct, parse_type, quote_name, to_text

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
    by_name = index_columns(columns)
    values = ((_convert_column(find_column(by_name, column.sources), column), column) for column in schema.columns)
    return rows.select(*(F.expr(value).alias(column.name) for value, column in values))


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
                part = f"CAST(NULL AS {to_text(type_)})"
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
        return f"to_json({_with_text_keys(value, before)}, {_JSON_OPTIONS})"
    if before == "timestamp":
        return f"CONCAT(CAST({_utc(f'unix_micros({value})')} AS STRING), 'Z')"
    return f"CAST({value} AS STRING)"


def _with_text_keys(value: str, type_: SparkType, depth: int = 0) -> str:
    """The value with every key of a map as text: `to_json` shows other keys as what they are inside."""
    if not _has_odd_keys(type_):
        return value
    key, item = f"key{depth}", f"item{depth}"
    match type_:
        case Struct(fields):
            parts = [
                f"{_text(name)}, {_with_text_keys(f'{value}.{quote_name(name)}', inner, depth)}"
                for name, inner in fields
            ]
            return f"IF({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
        case Array(element):
            return f"transform({value}, {item} -> {_with_text_keys(item, element, depth + 1)})"
        case Map(key_type, value_type):
            text = f"base64({key})" if key_type == "binary" else _to_string(key, key_type)
            inner = f"transform_values({value}, ({key}, {item}) -> {_with_text_keys(item, value_type, depth + 1)})"
            return f"transform_keys({inner}, ({key}, {item}) -> {text})"
    return value


def _has_odd_keys(type_: SparkType) -> bool:
    match type_:
        case Struct(fields):
            return any(_has_odd_keys(inner) for _, inner in fields)
        case Array(element):
            return _has_odd_keys(element)
        case Map(key, value):
            return key != "string" or _has_odd_keys(value)
    return False


def row_as_json(columns: Sequence[FileColumn]) -> SparkColumn:
    """A whole row of a file as JSON, as exact as a column's."""
    parts = (
        f"{_text(column.name)}, {_with_text_keys(quote_name(column.name), parse_type(read_type(column)))}"
        for column in columns
    )
    return F.expr(f"to_json(named_struct({', '.join(parts)}), {_JSON_OPTIONS})")


def _utc(micros: str) -> str:
    """The date and time in UTC of a number of microseconds."""
    seconds = f"CAST(CAST({micros} AS DECIMAL(20, 0)) * 0.000001 AS DECIMAL(18, 6))"
    return f"(TIMESTAMP_NTZ'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {seconds}))"


def _convert_nanoseconds(value: str, before: str, after: str) -> str:
    if after in _TEXTUAL:
        seconds = f"CAST({_utc(f'({value} - pmod({value}, 1000000000)) DIV 1000')} AS STRING)"
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
    """For a type that need not hold every value: the value if it fits exactly, and the condition that it does."""
    if before.endswith(NANOSECONDS) and after in {"timestamp", "timestamp_ntz", "date"}:
        whole = f"{value} % 1000 = 0"
        micros = f"({value} - pmod({value}, 1000)) DIV 1000"
        base = before.removesuffix(NANOSECONDS)
        moment = f"timestamp_micros({micros})" if base == "timestamp" else _utc(micros)
        tried, fits = (moment, "TRUE") if base == after else try_convert(moment, base, after)
        return tried, f"({whole} AND {fits})"
    if before == "string":
        return _try_text(value, after)
    if _NUMBERS.fullmatch(before) and _NUMBERS.fullmatch(after):
        tried = f"TRY_CAST({value} AS {after})"
        return tried, f"COALESCE({tried} IS NOT NULL AND TRY_CAST({tried} AS {before}) = {value}, FALSE)"
    if before in {"timestamp", "timestamp_ntz"} and after == "date":
        moment = _utc(f"unix_micros({value})") if before == "timestamp" else value
        return f"CAST({moment} AS DATE)", f"CAST(CAST({moment} AS DATE) AS TIMESTAMP_NTZ) = {moment}"
    if (before, after) == ("binary", "string"):
        return f"CAST({value} AS STRING)", f"is_valid_utf8(CAST({value} AS STRING))"
    return f"CAST(NULL AS {after})", "FALSE"


_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOMENT = f"{_DAY}[ T][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]{{1,6}})?)?"
_WHOLE = "[+-]?[0-9]+"
_NUMBER = "[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
_PATTERNS = {
    "boolean": "(?i)true|false",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE),
    **dict.fromkeys(("float", "double"), _NUMBER),
    "date": _DAY,
    "timestamp_ntz": _MOMENT,
    "timestamp": f"{_MOMENT}(Z|[+-][0-9]{{2}}:[0-9]{{2}})",
}
"""What a text must look like to mean a value of the type and nothing else; Spark's own casts read much more into one."""


def _try_text(text: str, after: str) -> tuple[str, str]:
    tried = f"TRY_CAST({text} AS {after})"
    decimal = _DECIMAL.fullmatch(after)
    pattern = f"[+-]?[0-9]*([.][0-9]{{0,{decimal[2]}}}0*)?" if decimal else _PATTERNS.get(after)
    if pattern is None:
        return f"CAST(NULL AS {after})", "FALSE"
    fits = f"({text} RLIKE '^({pattern})$' AND {tried} IS NOT NULL)"
    if after in {"float", "double"}:  # the shortest number that means this very double must be the one that was written
        exact = f"TRY_CAST(CAST({tried} AS STRING) AS DECIMAL(38, 18)) = TRY_CAST({text} AS DECIMAL(38, 18))"
        fits = f"({fits} AND COALESCE({exact}, FALSE))"
    return tried, fits


def admit_columns(
    columns: Sequence[FileColumn], schema: Schema, unsure: AbstractSet[str], required: AbstractSet[str]
) -> tuple[list[SparkColumn], SparkColumn]:
    """The table's columns, and the names of those columns (comma-separated, empty when all is well) whose value does not fit.

    `unsure` holds the keys of columns whose type may not hold every value of the file, `required` those that may not be NULL.
    """
    by_name = index_columns(columns)
    values, broken = [], []
    for column in schema.columns:
        source = find_column(by_name, column.sources)
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


def _text(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
