"""Raw columns into a table's columns: every value keeps its exact meaning, whatever type the file gave it.

Columns are read by name and never through a text that Spark parses: a name may contain anything, even `${...}`. The
result depends only on the file's type and the table's type, never on the session's time zone, so that a row is the
same whether it is loaded today or in a rebuild.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.model.schema import NANOSECONDS, Column, FileColumn, Schema, find_column, index_columns
from penstock.model.types import (
    Array,
    Map,
    SparkType,
    Struct,
    normal_type,
    parse_type,
    parts_of,
    quote_name,
    rebuild,
    to_text,
)

_JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_TEXTUAL = ("string", "binary")
_NUMBERS = re.compile(r"tinyint|smallint|int|bigint|float|double|decimal\(.*")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_SECOND = 1_000_000_000
_DAY_MICROS = 86_400_000_000

Converted = Callable[[SparkColumn, SparkType, SparkType], SparkColumn]


def read_type(column: FileColumn) -> str:
    """The type to read a file's column with: nanoseconds are read as whole numbers."""
    return "bigint" if column.type.endswith(NANOSECONDS) else column.type


def by_name(name: str) -> SparkColumn:
    """The column of exactly this name, which may contain dots."""
    return F.col(quote_name(name))


def conform_columns(rows: DataFrame, columns: Sequence[FileColumn], schema: Schema) -> DataFrame:
    """The table's columns, from files with these columns; NULL where the files have none. Loses no value.

    Needs rows read with `read_type`. A value with nanoseconds stops the query: no column can hold it.
    """
    known = index_columns(columns)
    values = ((_convert_column(find_column(known, column.sources), column), column) for column in schema.columns)
    return rows.select(*(value.alias(column.name) for value, column in values))


def conform_field(fields: Sequence[T.StructField], name: str, type_: str) -> SparkColumn:
    """A table's column from a frame with these fields, ignoring case; NULL where it is not among them."""
    found = next((field for field in fields if field.name.lower() == name.lower()), None)
    source = FileColumn(found.name, normal_type(found.dataType.simpleString())) if found else None
    return _convert_column(source, Column(name, type_)).alias(name)


def _convert_column(source: FileColumn | None, column: Column) -> SparkColumn:
    if source is None:
        return _null(column.type)
    return convert(by_name(source.name), source.type, column.type)


def _null(type_: str) -> SparkColumn:
    return F.lit(None).cast(type_)


def convert(value: SparkColumn, before: str, after: str) -> SparkColumn:
    """A value of one type as another that holds it exactly."""
    if before.endswith(NANOSECONDS):
        return _convert_nanoseconds(value, before.removesuffix(NANOSECONDS), after)
    return convert_parts(value, parse_type(before), parse_type(after), _convert_scalar)


def convert_parts(value: SparkColumn, before: SparkType, after: SparkType, scalar: Converted) -> SparkColumn:
    """The value with its parts converted, at any depth: fields by name, where a cast would match them by position.

    `scalar` converts what is not a struct, array or map on both sides.
    """
    if before == after:
        return value
    match before, after:
        case Struct(old), Struct(new):
            known = {name.lower(): (name, type_) for name, type_ in old}
            parts = []
            for name, type_ in new:
                part = _null(to_text(type_))
                if name.lower() in known:
                    old_name, old_type = known[name.lower()]
                    part = convert_parts(value.getField(old_name), old_type, type_, scalar)
                parts.append(part.alias(name))
            return F.when(value.isNotNull(), F.struct(*parts))
        case Array(old_element), Array(new_element):
            return F.transform(value, lambda item: convert_parts(item, old_element, new_element, scalar))
        case Map(old_key, old_value), Map(new_key, new_value):
            if old_value != new_value:
                value = F.transform_values(value, lambda _, item: convert_parts(item, old_value, new_value, scalar))
            if old_key != new_key:
                value = F.transform_keys(value, lambda key, _: convert_parts(key, old_key, new_key, scalar))
            return value
    return scalar(value, before, after)


def _convert_scalar(value: SparkColumn, before: SparkType, after: SparkType) -> SparkColumn:
    match before, after:
        case "string", "binary":
            return value.cast("binary")  # the bytes as they are: the text need not be UTF-8
        case _, "binary":
            return F.encode(_to_string(value, before), "UTF-8")
        case _, "string":
            return _to_string(value, before)
        case "date", "timestamp":
            return F.timestamp_micros(F.unix_date(value).cast("bigint") * _DAY_MICROS)  # midnight in UTC
        case _, str():
            return value.cast(after)
    raise ValueError(f"{before} cannot become {after}")


def _to_string(value: SparkColumn, before: SparkType) -> SparkColumn:
    if not isinstance(before, str):
        return _checked(F.to_json(_with_text_keys(value, before), _JSON_OPTIONS), _is_utf8(value, before))
    if before == "timestamp":
        return F.concat(_utc(F.unix_micros(value)).cast("string"), F.lit("Z"))
    return value.cast("string")


_TEXT_KEY = "text of a key"
"""Stands for the type of keys as text, so that no type of a key is the same."""


def _with_text_keys(value: SparkColumn, type_: SparkType) -> SparkColumn:
    """The value with every key of a map as text: `to_json` writes other keys in Spark's internal form.

    Keys that are text are converted too: only then does Spark see that one is there twice.
    """
    with_text_keys = rebuild(type_, lambda part: Map(_TEXT_KEY, part.value) if isinstance(part, Map) else part)
    return convert_parts(value, type_, with_text_keys, _key_to_text)


def _key_to_text(value: SparkColumn, before: SparkType, _: SparkType) -> SparkColumn:
    return F.base64(value) if before == "binary" else _to_string(value, before)


NOT_UTF8_FOUND = "PENSTOCK_NOT_UTF8"
"""The error of the query when a text that is not UTF-8 would become part of a JSON text."""


def _checked(json: SparkColumn, *is_utf8: SparkColumn | None) -> SparkColumn:
    """The JSON of a value; text in it that is not UTF-8, which JSON cannot hold, stops the query.

    Spark writes U+FFFD in the place of such bytes, so only a JSON text with that character is looked at closely.
    """
    known = [condition for condition in is_utf8 if condition is not None]
    if not known:
        return json
    stop = F.raise_error(F.lit(NOT_UTF8_FOUND)).cast("string")
    return F.when(json.contains("\ufffd") & ~reduce(and_, known), stop).otherwise(json)


def _is_utf8(value: SparkColumn, type_: SparkType) -> SparkColumn | None:
    """Whether every text in a value is UTF-8; None for a type that has no text."""
    match type_:
        case "string":
            return F.coalesce(F.is_valid_utf8(value), F.lit(True))
        case Struct(fields):
            parts = [_is_utf8(value.getField(name), part) for name, part in fields]
        case Array(element):
            parts = [_all_utf8(value, element)]
        case Map(key, item):
            parts = [_all_utf8(F.map_keys(value), key), _all_utf8(F.map_values(value), item)]
        case _:
            parts = []
    known = [F.coalesce(part, F.lit(True)) for part in parts if part is not None]
    return reduce(and_, known) if known else None


def _all_utf8(values: SparkColumn, element: SparkType) -> SparkColumn | None:
    if not any(part == "string" for part in parts_of(element)):
        return None

    def is_sound(item: SparkColumn) -> SparkColumn:
        found = _is_utf8(item, element)
        return F.lit(True) if found is None else found

    return F.forall(values, is_sound)


def row_as_json(columns: Sequence[FileColumn]) -> SparkColumn:
    """A whole row of a file as JSON, with exact values."""
    types = [(column.name, parse_type(read_type(column))) for column in columns]
    parts = (_with_text_keys(by_name(name), type_).alias(name) for name, type_ in types)
    return _checked(
        F.to_json(F.struct(*parts), _JSON_OPTIONS), *(_is_utf8(by_name(name), type_) for name, type_ in types)
    )


def _utc(micros: SparkColumn) -> SparkColumn:
    """The date and time in UTC of a number of microseconds: of any, so days and seconds are added apart."""
    days = _divide(micros, _DAY_MICROS)
    seconds = ((micros - days * _DAY_MICROS).cast("decimal(20,0)") * F.expr("0.000001")).cast("decimal(18,6)")
    none = F.lit(0)
    return F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'") + F.make_dt_interval(days.cast("int"), none, none, seconds)


def _divide(value: SparkColumn, divisor: int) -> SparkColumn:
    """Division of whole numbers, for which there is no operator."""
    return F.call_function("div", value, F.lit(divisor))


def _convert_nanoseconds(value: SparkColumn, before: str, after: str) -> SparkColumn:
    if after in _TEXTUAL:
        rest = F.pmod(value, F.lit(_SECOND))
        below = F.when((value < 0) & (rest != 0), 1).otherwise(0)  # `value - rest` may be too small for a bigint
        seconds = _utc((_divide(value, _SECOND) - below) * 1_000_000).cast("string")
        zone = [F.lit("Z")] if before == "timestamp" else []
        text = F.concat(seconds, F.lit("."), F.lpad(rest.cast("string"), 9, "0"), *zone)
        return text if after == "string" else F.encode(text, "UTF-8")
    micros = _divide(value, 1000)
    whole = F.timestamp_micros(micros) if before == "timestamp" else _utc(micros)
    stop = F.raise_error(F.lit(NANOSECONDS_FOUND)).cast(before)
    return convert(F.when(value % 1000 != 0, stop).otherwise(whole), before, after)


NANOSECONDS_FOUND = "PENSTOCK_NANOSECONDS"
"""The error of the query when a timestamp needs nanoseconds."""


def try_convert(value: SparkColumn, before: str, after: str) -> tuple[SparkColumn, SparkColumn]:
    """For a type that need not hold every value: the value if it fits exactly, and the condition that it does."""
    if before.endswith(NANOSECONDS) and after in {"timestamp", "timestamp_ntz", "date"}:
        micros = _divide(value, 1000)  # exact wherever the value fits
        base = before.removesuffix(NANOSECONDS)
        moment = F.timestamp_micros(micros) if base == "timestamp" else _utc(micros)
        tried, fits = (moment, F.lit(True)) if base == after else try_convert(moment, base, after)
        return tried, (value % 1000 == 0) & fits
    if before == "string":
        return _try_text(value, after)
    if _NUMBERS.fullmatch(before) and _NUMBERS.fullmatch(after):
        tried = value.try_cast(after)
        is_exact = tried.isNotNull() & (tried.try_cast(before) == value) & _is_within(value, tried, before, after)
        return tried, F.coalesce(is_exact, F.lit(False))
    if before in {"timestamp", "timestamp_ntz"} and after == "date":
        moment = _utc(F.unix_micros(value)) if before == "timestamp" else value
        return moment.cast("date"), moment.cast("date").cast("timestamp_ntz") == moment
    if (before, after) == ("binary", "string"):
        return value.cast("string"), F.is_valid_utf8(value.cast("string"))
    return _null(after), F.lit(False)


_REALS = ("float", "double")
_ENDS = {("bigint", "double"): 2.0**63, ("bigint", "float"): 2.0**63, ("int", "float"): 2.0**31}


def _is_within(value: SparkColumn, tried: SparkColumn, before: str, after: str) -> SparkColumn:
    """Whether a real number is not the first one beyond a type of whole numbers, of which Spark's cast makes the last within."""
    end = _ENDS.get((after, before) if before in _REALS else (before, after))
    return F.lit(True) if end is None else (value if before in _REALS else tried) < F.lit(end)


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
"""The format in which a text is a value of the type without doubt; Spark's own casts accept much more."""


def _try_text(text: SparkColumn, after: str) -> tuple[SparkColumn, SparkColumn]:
    decimal = _DECIMAL.fullmatch(after)
    pattern = f"[+-]?[0-9]*([.][0-9]{{0,{decimal[2]}}}0*)?" if decimal else _PATTERNS.get(after)
    if pattern is None:
        return _null(after), F.lit(False)
    tried = text.try_cast(after)
    fits = text.rlike(f"^({pattern})$") & tried.isNotNull()
    if after in _REALS:
        fits = fits & F.coalesce(_is_shortest(text, tried, after), F.lit(False))
    return tried, fits


_SURE = {"float": (6, 1.17549435e-38), "double": (15, 2.2250738585072014e-308)}
"""With at most so many digits, from this number on, no other text of so many digits is the same value."""


def _is_shortest(text: SparkColumn, tried: SparkColumn, after: str) -> SparkColumn:
    """Whether a number, as text, is the one that its nearest value is written as: then nothing of it is rounded."""
    digits, power = _to_digits(text)
    found, found_power = _to_digits(tried.cast("string"))
    most, least = _SURE[after]
    is_sure = (F.length(digits) <= most) & (F.abs(tried) >= F.lit(least)) & (F.abs(tried) < F.lit(float("inf")))
    return is_sure | ((digits == found) & ((digits == "") | (power == found_power)))


def _to_digits(text: SparkColumn) -> tuple[SparkColumn, SparkColumn]:
    """The digits of a number without zeros at their ends, and the power of ten before them; no digits for 0."""
    mantissa = F.regexp_extract(text, "^[+-]?([0-9.]*)", 1)
    exponent = F.coalesce(F.regexp_extract(text, "[eE]([+-]?[0-9]+)$", 1).try_cast("int"), F.lit(0))
    written = F.replace(mantissa, F.lit("."))
    digits = F.regexp_replace(written, "^0+", "")
    zeros = F.length(written) - F.length(digits)
    power = F.length(F.substring_index(mantissa, ".", 1)) - zeros + exponent
    return F.regexp_replace(digits, "0+$", ""), power


def admit_columns(
    columns: Sequence[FileColumn], schema: Schema, unsure: AbstractSet[str], required: AbstractSet[str]
) -> tuple[list[SparkColumn], SparkColumn]:
    """The table's columns, and the names of those columns (comma-separated, empty when all values fit) whose value does not fit.

    `unsure` holds the keys of columns whose type may not hold every value of the file, `required` those that may not be NULL.
    """
    known = index_columns(columns)
    values, broken = [], []
    for column in schema.columns:
        source = find_column(known, column.sources)
        breaks: list[SparkColumn] = []
        if source is not None and column.key in unsure:
            value, fits = try_convert(by_name(source.name), source.type, column.type)
            breaks.append(by_name(source.name).isNotNull() & ~fits)
        else:
            value = _convert_column(source, column)
        if column.key in required:
            breaks.append(by_name(source.name).isNull() if source is not None else F.lit(True))
        values.append(value.alias(column.name))
        broken += [F.when(reduce(or_, breaks), F.lit(column.name))] if breaks else []
    return values, F.concat_ws(", ", *broken) if broken else F.lit("")
