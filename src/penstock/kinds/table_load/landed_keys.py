"""The keys of landed rows, counted by reading the files back. No JVM: for a few million rows, a Spark job takes longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.storage.files import Files

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 2_000_000
"""With more rows, their keys may not fit into the memory of the driver."""
_EXACT = ("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "binary", "date", "timestamp")
"""Types of which Arrow and Spark call the same values equal; of floating-point numbers, they do not."""


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """What is to be known about keys before rows are written."""

    rows: int
    nulls: int
    """Rows with a key that is NULL."""
    repeated: int
    """Keys that more than one row has."""


def is_countable(type_: str) -> bool:
    """Whether keys of this type can be counted here."""
    return type_.startswith(_EXACT)


def count_keys(files: Files, paths: Sequence[str], keys: Sequence[str]) -> KeyCounts:
    """Read the key columns of Parquet files and count them; without keys, only the rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [part for path in paths for part in _parts_of(files, path)]
    if not keys or not parts:
        return KeyCounts(sum(_count_rows(files, part) for part in parts), 0, 0)
    rows = pa.concat_tables([_read(files, part, keys) for part in parts])
    numbered = rows.rename_columns([str(number) for number in range(len(keys))])  # a name may be taken by the count
    groups = numbered.group_by(numbered.column_names, use_threads=False).aggregate([([], "count_all")])
    count = groups.column("count_all")
    is_null = pc.is_null(groups.column("0"))
    for name in numbered.column_names[1:]:
        is_null = pc.or_(is_null, pc.is_null(groups.column(name)))
    nulls = pc.sum(count.filter(is_null)).as_py() or 0
    return KeyCounts(rows.num_rows, nulls, pc.sum(pc.greater(count, 1)).as_py() or 0)


def _parts_of(files: Files, path: str) -> list[str]:
    """The files of landed rows: where Spark has landed them, the one of the contract is a folder."""
    names = files.names(path)
    return [f"{path}/{name}" for name in names if name.endswith(".parquet")] if names else [path]


def _read(files: Files, path: str, columns: Sequence[str]) -> pa.Table:
    import pyarrow.parquet as pq

    with files.open(path) as stream:
        found = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us").read(columns=list(columns))
    return found.select(list(columns))  # `a` also reads a column named `a.b`


def _count_rows(files: Files, path: str) -> int:
    import pyarrow.parquet as pq

    with files.open(path) as stream:
        return int(pq.read_metadata(stream).num_rows)
