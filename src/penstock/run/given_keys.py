"""What users give to a request: its keys, the tables that it concerns, and from which point on a key may come back."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from penstock.errors import UsageError
from penstock.kinds.catalog import Catalog
from penstock.maintenance.erasure.requests import find_targets, read_column_types
from penstock.model.changes import START_AT
from penstock.model.erasure import ErasableTable
from penstock.model.names import DatasetName

_READERS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int),
    **dict.fromkeys(("float", "double", "decimal"), Decimal),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), datetime.fromisoformat),
    "binary": lambda text: bytes.fromhex(text.removeprefix("0x").removeprefix("0X")),
}

Source: TypeAlias = Path | str | pa.Table | None
"""A CSV or Parquet file, CSV text, or a table."""


def read_given_keys(
    catalog: Catalog, what: str, keys: Sequence[str], source: Source
) -> tuple[tuple[ErasableTable, ...], pa.Table]:
    """The tables that a request concerns, and its keys as a table with one column per column of the key."""
    from penstock.maintenance.erasure.keys import parse_arguments, read_keys

    source = source.removeprefix("\ufeff") if isinstance(source, str) else source
    _check_utf8((*keys, source) if isinstance(source, str) else keys)
    names = [key.partition("=")[0] for key in keys if "=" in key]
    settings = catalog.workspace.project.erasure
    targets = find_targets(catalog, settings, what, names or _find_key_columns(catalog, what, source))
    columns = [column.name for column in targets[0].key]
    if isinstance(source, pa.Table):
        given = source.select(columns)
    elif source is not None:
        given = read_keys(source, columns)
    else:
        values = parse_arguments(keys, columns)
        given = pa.table({n: pa.array([v], pa.string()) for n, v in zip(columns, values, strict=True)})
    if not given.num_rows:
        raise UsageError("no key is given", hint="--key NAME=VALUE, --from FILE, or --from - for standard input")
    return targets, given


def _check_utf8(texts: Iterable[str]) -> None:
    """Bytes that are not UTF-8 reach Python as half characters, which nothing can store or compare."""
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "the keys are not UTF-8; nothing was hidden", hint="convert them, for example with iconv"
        ) from None


def _find_key_columns(catalog: Catalog, what: str, source: Source) -> list[str]:
    """The columns of a table that keys are given for; none when the declared key is meant, with one value per line.

    What is no column of the table can be a value, so no message shows it.
    """
    names, table = _columns_of(source), _find_table(catalog, what)
    columns = read_column_types(catalog, table) if table is not None else None
    if columns is None or all(name.lower() in columns for name in names):
        return names
    declared = catalog.workspace.project.erasure.declared_for(table) if table is not None else ()
    if len(names) == 1 and declared and len(declared[0].key) == 1 and not isinstance(source, pa.Table):
        return []
    raise UsageError(
        f"the keys have a column that {table} does not have; nothing was hidden",
        hint=f"name columns of the table in the first line: {', '.join(columns)}",
    )


def _find_table(catalog: Catalog, what: str) -> DatasetName | None:
    """The dataset of this name; None for a subject."""
    if catalog.workspace.project.erasure.tables_of(what):
        return None
    try:
        return catalog.find(what).name
    except UsageError:
        return None


def _columns_of(source: Source) -> list[str]:
    """The columns that a file of keys names; they must be the key of the table."""
    if source is None:
        return []
    if isinstance(source, pa.Table):
        return list(source.column_names)
    if isinstance(source, Path) and source.suffix == ".parquet":
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(source).names)
        except (OSError, pa.ArrowException):
            raise UsageError(f"{source} cannot be read as Parquet") from None
    try:
        text = source.read_text(encoding="utf-8-sig") if isinstance(source, Path) else source
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
    return [name.strip() for name in next(csv.reader(io.StringIO(text)), []) if name.strip()]


def check_release(catalog: Catalog, table: DatasetName, value: str, column: str | None) -> None:
    """A streaming table is released by sequence; any other by a column that it has. The value must fit, or nothing comes back."""
    types = read_column_types(catalog, table) or {}
    dataset = catalog.datasets.get(table)
    if dataset is not None and dataset.keys:
        if column is not None:
            raise UsageError(f"{table} is released by its sequence, not by a column", hint="--from SEQUENCE")
        column = START_AT
    elif column is None or column.lower() not in types:
        raise UsageError(
            f"name a column of {table} that tells new rows from old ones", hint="--from VALUE --column NAME"
        )
    type_ = types.get(column.lower(), "string")
    if not _fits(value, type_):
        raise UsageError(
            f"--from: {value} cannot be a value of {column} of {table}, which is of type {type_}; nothing was released",
            hint="write dates and times as 2026-12-01 or 2026-12-01 10:00:00",
        )


def check_searchable(catalog: Catalog, targets: Iterable[ErasableTable], given: pa.Table) -> None:
    """UsageError for keys of one column that no file can have: "nothing was found" would prove nothing."""
    texts = [value for value in given.column(0).to_pylist() if value is not None]
    if not texts:
        raise UsageError("NULL cannot be searched in files", hint="without keys, the hashes of tables are compared")
    for target in targets:
        name = target.key[0].name
        type_ = (read_column_types(catalog, target.table) or {}).get(name.lower(), "string")
        if count := sum(isinstance(text, str) and not _fits(text, type_) for text in texts):
            raise UsageError(
                f"{count} of the keys cannot be a value of {name} of {target.table}, which is of type {type_}; "
                "nothing was searched",
                hint="write values as the column has them; 0x... for binary",
            )


def _fits(text: str, type_: str) -> bool:
    """Whether a text can be a value of a type that has an order; other types are not checked."""
    read = _READERS.get(type_.partition("(")[0])
    try:
        return read is None or read(text) is not None
    except (ValueError, InvalidOperation):
        return False
