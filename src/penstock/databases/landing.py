"""Rows become Parquet files below a prefix; a file is complete or absent, and an error leaves none."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.databases.contract import SourceColumn
from penstock.storage.arrow_types import to_arrow_type
from penstock.storage.files import Files

_FILE_BYTES = 48 * 1024 * 1024
"""About how many bytes a file gets; it is kept in memory until it is complete."""
_GROUP_BYTES = 64 * 1024 * 1024
"""About how many bytes of rows, as Arrow has them, a row group gets."""


def to_arrow_schema(columns: tuple[SourceColumn, ...]) -> pa.Schema:
    """What files of these columns look like."""
    return pa.schema([pa.field(each.name, to_arrow_type(each.type or "string")) for each in columns])


class Landing:
    """Writes batches to `PREFIX-0000.parquet`, `PREFIX-0001.parquet`, ...; a file at a time, of bounded size.

    There is always a file, so that a reader finds the columns of an empty table.
    """

    def __init__(self, files: Files, prefix: str, schema: pa.Schema) -> None:
        self._files = files
        self._prefix = prefix
        self._schema = schema
        self._buffer: Any = None
        self._writer: Any = None
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self.written: list[str] = []
        self.rows = 0

    def __enter__(self) -> Landing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                self._end_file(is_last=True)
            except BaseException:
                self._remove()
                raise
        else:
            self._remove()

    def add(self, rows: pa.Table) -> None:
        """Write some rows; they have the columns of the schema."""
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self.rows += rows.num_rows
        if self._waiting_bytes >= _GROUP_BYTES:
            self._write_group()
            if self._buffer.tell() >= _FILE_BYTES:
                self._end_file(is_last=False)

    def _write_group(self) -> None:
        if self._writer is None:
            self._buffer = pa.BufferOutputStream()
            # Without dictionaries, zstd finds the repetitions itself: files are no larger, and written in half the time.
            self._writer = pq.ParquetWriter(
                self._buffer, self._schema, compression="zstd", compression_level=1, use_dictionary=False
            )
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        self._waiting, self._waiting_bytes = [], 0

    def _end_file(self, *, is_last: bool) -> None:
        if self._waiting or (is_last and not self.written and self._writer is None):
            self._write_group()
        if self._writer is None:
            return
        self._writer.close()
        path = f"{self._prefix}-{len(self.written):04}.parquet"
        content = self._buffer.getvalue().to_pybytes()
        self._writer = self._buffer = None
        self._create(path, content)
        self.written.append(path)

    def _create(self, path: str, content: bytes) -> None:
        try:
            self._files.create(path, content)
        except FileExistsError:  # what a killed attempt left
            self._files.remove(path)
            self._files.create(path, content)

    def _remove(self) -> None:
        self._waiting, self._writer, self._buffer = [], None, None
        for path in self.written:
            with suppress(FileNotFoundError):
                self._files.remove(path)
        self.written = []
