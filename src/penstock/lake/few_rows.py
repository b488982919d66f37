"""A few rows of a Delta table, read on the driver without Spark, whose planning alone takes longer than such a read.

The conditions only narrow the search: the caller must check the rows that it gets. Where the reader does
not support a table's features, or the table is large, the result is None, and Spark must read the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.model.names import DatasetName
from penstock.storage.delta_rs import open_delta_table
from penstock.storage.files import Files

if TYPE_CHECKING:
    import pyarrow as pa

_KNOWN_FEATURES = frozenset({"deletionVectors", "timestampNtz"})
_MOST_BYTES = 256 << 20
"""The size of all data files; above it, several executors are faster than one driver."""
SETTINGS = {"datafusion.execution.parquet.coerce_int96": "us"}
"""Older files have timestamps in 96 bits. Read as nanoseconds, which is the default, the year 9999 would become another year."""
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_MILLISECOND = 1000


@dataclass(frozen=True, slots=True)
class FewRows:
    """A table to be read on the driver."""

    files: Files
    name: DatasetName

    def read(self, columns: Sequence[str], conditions: Iterable[str], most: int) -> pa.Table | None:
        """These columns of the rows for which all conditions hold, at the table's latest version.

        None when there are more rows than `most`, or when they cannot be read here.
        """
        import pyarrow as pa
        from deltalake import QueryBuilder

        chosen = ", ".join(map(_quote, columns))
        where = " AND ".join(f"({condition})" for condition in conditions)
        try:
            table = open_delta_table(self.files.spark_path(self.name.path), self.files.reader_options)
            if not _is_readable(table):
                return None
            query = QueryBuilder(SETTINGS).register("stored", table)
            found = pa.table(query.execute(f"SELECT {chosen} FROM stored WHERE {where} LIMIT {most + 1}").read_all())  # noqa: S608
        except Exception:  # noqa: BLE001 - whatever is wrong, Spark says it better
            return None
        return found if found.num_rows <= most else None


def _is_readable(table: Any) -> bool:
    if not set(table.protocol().reader_features or ()) <= _KNOWN_FEATURES:
        return False
    sizes: list[int] = table.get_add_actions().column("size_bytes").to_pylist()
    return sum(sizes) <= _MOST_BYTES


def is_one_of(name: str, type_: str, values: pa.Array) -> str | None:
    """A condition: the column has one of these values; None for values that have no unambiguous text."""
    if type_ in _WHOLE:
        texts = [str(value) for value in values.to_pylist()]
    elif type_ == "string" and is_text(values):
        texts = [_text(value) for value in values.to_pylist()]
    else:
        return None
    return f"{_quote(name)} IN ({', '.join(texts)})" if texts else "FALSE"


def is_text(values: pa.Array) -> bool:
    """Whether all strings are UTF-8, as those of Spark need not be."""
    import pyarrow as pa

    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def is_open_or_from(name: str, type_: str, first: str) -> str | None:
    """A condition: the sequence is NULL or not before `first`, an exact text; None where this cannot be expressed."""
    if type_ in _WHOLE:
        value = first
    elif type_ == "string":
        value = _text(first)
    elif type_ == "date":
        value = f"DATE '{first}'"
    elif type_ == "timestamp":
        # Statistics of files are cut to milliseconds: without one more, a file with a row in scope could be skipped.
        micros = (int(first) // _MILLISECOND - 1) * _MILLISECOND
        value = f"arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    else:
        return None
    return f"{_quote(name)} IS NULL OR {_quote(name)} >= {value}"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
