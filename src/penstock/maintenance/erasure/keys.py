"""Keys as users give them: from arguments, files or standard input, checked against the type of their column, and hashed.

A value that does not fit its column could never match a row, so it is refused. No message shows a value.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.errors import UsageError
from penstock.model.keys import KeyColumn
from penstock.model.types import quote_name
from penstock.transforms.arrow import to_frame
from penstock.transforms.key_hashes import hash_key, key_text, to_pads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NULL = "\\N"
"""The spelling of NULL in arguments and CSV files."""
_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)


@dataclass(frozen=True, slots=True)
class HashedKey:
    """One key, as tombstones keep it; and its clear text, which only the vault keeps."""

    full: str
    mark: int
    text: str = field(repr=False)


def parse_arguments(given: Iterable[str], columns: Sequence[str]) -> tuple[str | None, ...]:
    """The values of one key from `name=value` arguments, in the order of the columns; a bare value for a single column."""
    known = {name.lower(): name for name in columns}
    found: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if separator and name.lower() in known:
            found[name.lower()] = value
        elif len(columns) == 1:
            found[columns[0].lower()] = text
        else:
            raise UsageError(
                f"--key: give every column of the key by name: {', '.join(columns)}",
                hint=f"--key {columns[0]}=... (values are not shown here)",
            )
    missing = [name for name in columns if name.lower() not in found]
    if missing:
        raise UsageError(f"--key: the key also needs {', '.join(missing)}", hint=f"--key {missing[0]}=...")
    return tuple(None if found[name.lower()] == NULL else found[name.lower()] for name in columns)


def read_keys(source: Path | str, columns: Sequence[str]) -> pa.Table:
    """The keys in a Parquet or CSV file, or in CSV text from standard input, with the columns in this order."""
    if isinstance(source, Path) and source.suffix == ".parquet":
        return _pick(_read_parquet(source), columns, str(source))
    try:
        text = source.read_text(encoding="utf-8-sig") if isinstance(source, Path) else source
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
    where = str(source) if isinstance(source, Path) else "standard input"
    lines = _read_lines(text)
    if not lines:
        raise UsageError(f"{where} has no keys", hint=f"the first line must name the columns: {','.join(columns)}")
    (_, header), *rows = lines
    if len(columns) == 1 and columns[0].lower() not in {name.strip().lower() for name in header} and len(header) == 1:
        header, rows = [columns[0]], lines  # one value per line
    for number, row in rows:
        if len(row) != len(header):
            raise UsageError(f"{where}: line {number} has {len(row)} values, the header {len(header)}")
    values = [
        [None if value == NULL else value for value in column] for column in zip(*(r for _, r in rows), strict=True)
    ]
    values = values or [[] for _ in header]
    arrays = [pa.array(column, pa.string()) for column in values]
    return _pick(pa.Table.from_arrays(arrays, [name.strip() for name in header]), columns, where)


def _read_lines(text: str) -> list[tuple[int, list[str]]]:
    """The records of CSV text that have values, each with the number of the line on which it begins."""
    found, begin = list[tuple[int, list[str]]](), 1
    reader = csv.reader(io.StringIO(text))
    try:
        for row in reader:
            if row:
                found.append((begin, row))
            begin = reader.line_num + 1
    except csv.Error:  # its message may quote a value
        raise UsageError(f"line {begin} of the keys is no CSV; nothing was hidden") from None
    return found


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException):
        raise UsageError(f"{path} cannot be read as Parquet") from None


def _pick(table: pa.Table, columns: Sequence[str], where: str) -> pa.Table:
    names = {name.lower(): name for name in table.column_names}
    missing = [name for name in columns if name.lower() not in names]
    if missing:
        raise UsageError(
            f"{where} has no column {missing[0]}",
            hint=f"the key is {', '.join(columns)}; name its columns in the header",
        )
    return table.select([names[name.lower()] for name in columns]).rename_columns(list(columns))


def hash_keys(
    session: SparkSession,
    given: pa.Table,
    key: Sequence[KeyColumn],
    types: Mapping[str, T.DataType],
    secret_id: str,
    secret: bytes,
) -> list[HashedKey]:
    """The keys hashed, each once; UsageError when a value does not fit the type of its column."""
    found, columns = type_keys(session, given, key, types)
    hashed = hash_key(found, columns, to_pads(secret_id, secret))
    table = found.select(hashed.full.alias("full"), hashed.mark.alias("mark"), key_text(found, columns).alias("text"))
    unique = {row["full"]: HashedKey(row["full"], row["mark"], row["text"]) for row in table.collect()}
    return list(unique.values())


def type_keys(
    session: SparkSession, given: pa.Table, key: Sequence[KeyColumn], types: Mapping[str, T.DataType]
) -> tuple[DataFrame, list[KeyColumn]]:
    """The keys in the types of the table's columns, and the key by the names that it has there; UsageError as above."""
    names = [f"k{number}" for number in range(len(key))]
    check_decimals(given, key, types)
    rows = to_frame(session, given.rename_columns(names))
    typed = {name: _to_type(rows, name, types[column.name.lower()]) for name, column in zip(names, key, strict=True)}
    _check_fit(rows, typed, key, types)
    columns = [KeyColumn(name, column.normal_form) for name, column in zip(names, key, strict=True)]
    return rows.select(*(value.alias(name) for name, value in typed.items())), columns


def _to_type(rows: DataFrame, name: str, type_: T.DataType) -> Column:
    """A value in the type of its column: a text is parsed, NULL when that fails; other values are compared by their text.

    A date or time has another text in each type, so that it is converted.
    """
    column, given = F.col(quote_name(name)), rows.schema[name].dataType
    if isinstance(given, _TIMES) and isinstance(type_, _TIMES):
        return column.try_cast(type_)
    if not isinstance(given, T.StringType) or isinstance(type_, T.StringType):
        return column
    if isinstance(type_, T.BinaryType):
        is_hex = F.lower(F.substring(column, 1, 2)) == "0x"
        return F.try_to_binary(F.when(is_hex, F.substring(column, F.lit(3), F.length(column))), F.lit("hex"))
    return column.try_cast(type_)


def _check_fit(
    rows: DataFrame, typed: Mapping[str, Column], key: Sequence[KeyColumn], types: Mapping[str, T.DataType]
) -> None:
    """Refuse values that cannot be in the column: not a number, too many digits, a time in a date."""
    conditions = []
    for name, value in typed.items():
        column, given = F.col(quote_name(name)), rows.schema[name].dataType
        is_lost = column.isNotNull() & value.isNull()
        type_ = types[key[int(name[1:])].name.lower()]
        if isinstance(given, _TIMES) and isinstance(type_, _TIMES):
            is_lost |= value.cast(given) != column
        if isinstance(given, T.StringType) and isinstance(type_, T.DateType):
            is_lost |= column.try_cast("timestamp_ntz") != value.cast("timestamp_ntz")
        conditions.append(F.count_if(column.isNotNull() & F.coalesce(is_lost, F.lit(True))).alias(name))
    for count, part in zip(rows.agg(*conditions).collect()[0], key, strict=True):
        if count:
            raise _misfit(count, part, types[part.name.lower()])


def _misfit(count: int, part: KeyColumn, type_: T.DataType) -> UsageError:
    return UsageError(
        f"{count} of the keys cannot be a value of {part.name}, which is of type {type_.simpleString()}; nothing was hidden",
        hint=f"write values as the column has them; {NULL} stands for NULL, 0x... for binary",
    )


def check_decimals(given: pa.Table, key: Sequence[KeyColumn], types: Mapping[str, T.DataType]) -> None:
    """Refuse texts that a decimal column cannot have exactly: Spark would round them to another key."""
    for column, part in zip(given.columns, key, strict=True):
        type_ = types[part.name.lower()]
        if isinstance(type_, T.DecimalType) and (
            pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        ):
            misfits = sum(not _fits_decimal(text, type_) for text in column.to_pylist() if text is not None)
            if misfits:
                raise _misfit(misfits, part, type_)


def _fits_decimal(text: str, type_: T.DecimalType) -> bool:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return False
    if not number.is_finite():
        return False
    digits, before_point = "".join(map(str, number.as_tuple().digits)).rstrip("0"), number.adjusted() + 1
    return not number or (len(digits) - before_point <= type_.scale and before_point <= type_.precision - type_.scale)


def check_reason(text: str, given: pa.Table, what: str = "reason") -> None:
    """UsageError when the reason or the actor contains a key: both are kept for good, in clear."""
    folded = text.casefold()
    values: set[Any] = {value for column in given.columns for value in column.to_pylist()}
    if any(len(str(value)) >= 3 and str(value).casefold() in folded for value in values if value is not None):
        raise UsageError(
            f"the {what} contains the key; it is kept for good", hint="name the request instead, e.g. DSR-2024-17"
        )
