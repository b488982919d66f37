"""The rows of a raw text file as Parquet in the storage, where every Spark worker can read them. The copy lives for one load."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import RawFileError
from penstock.model.schema import FileColumn, Footer
from penstock.model.text_files import TextFiles
from penstock.storage.arrow_types import to_arrow_type
from penstock.storage.files import Files
from penstock.storage.text.blocks import BadRow, Block
from penstock.storage.text.casts import cast_known
from penstock.storage.text.reading import new_digest, read_blocks

LINE = "__penstock_line"
"""The column of a landed file with the line where the record starts."""
BAD_FILE, BAD_PROBLEM, BAD_ROW = "__penstock_file", "__penstock_problem", "__penstock_row"
"""Columns of a file with bad records: the raw file, what is wrong, the record as JSON. Its fields are columns too, as text."""


@dataclass(frozen=True, slots=True)
class Landing:
    """Lands text files of one table."""

    raw: Files
    storage: Files
    settings: TextFiles

    def land(self, path: str, footer: Footer, columns: Sequence[FileColumn], target: str) -> str | None:
        """Write the rows of a file to `target`, with these columns in these types, and LINE.

        Gives the path of a second file, with the records that cannot be read; None when there are none. RawFileError when
        the file is no longer what the plan has read.
        """
        writer = _Writer(path, columns)
        bad: list[BadRow] = []
        digest = new_digest()
        with ExitStack() as stack:
            sink = stack.enter_context(self.storage.open_new(target))
            table = stack.enter_context(writer.open(sink))
            for block in read_blocks(self.raw, path, self.settings, digest):
                table.write(writer.to_table(block))
                bad += block.bad
            if digest.hexdigest() != footer.digest:  # its values were not checked against these types
                raise _changed(path)
        return self._land_bad(path, bad, columns, f"{target}.bad") if bad else None

    def _land_bad(self, path: str, bad: Sequence[BadRow], columns: Sequence[FileColumn], target: str) -> str:
        import pyarrow as pa
        import pyarrow.parquet as pq

        text = pa.string()
        found = {
            LINE: pa.array([row.line for row in bad], pa.int64()),
            BAD_FILE: pa.array([path] * len(bad), text),
            BAD_PROBLEM: pa.array([row.problem for row in bad], text),
            BAD_ROW: pa.array([json.dumps(row.fields, ensure_ascii=False) for row in bad], text),
            **{column.name: pa.array([row.fields.get(column.name) for row in bad], text) for column in columns},
        }
        with self.storage.open_new(target) as sink:
            pq.write_table(pa.table(found), sink)
        return target


@dataclass(frozen=True, slots=True)
class _Writer:
    path: str
    columns: Sequence[FileColumn]
    _schema: list[Any] = field(default_factory=list)

    def open(self, sink: Any) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        fields = [pa.field(column.name, to_arrow_type(column.type)) for column in self.columns]
        self._schema.append(pa.schema([*fields, pa.field(LINE, pa.int64())]))
        plain = {LINE: "DELTA_BINARY_PACKED"}
        dictionaries = [column.name for column in self.columns if column.type in {"string", "binary"}]
        return pq.ParquetWriter(sink, self._schema[0], use_dictionary=dictionaries, column_encoding=plain)

    def to_table(self, block: Block) -> Any:
        import pyarrow as pa

        by_name = {name.lower(): column for name, column in block.columns.items()}
        arrays = []
        for column in self.columns:
            found = by_name.get(column.name.lower())
            texts = found.values if found is not None else pa.nulls(block.rows, pa.string())
            try:
                arrays.append(cast_known(texts, column.type))
            except pa.ArrowInvalid:
                raise _changed(self.path) from None
        return pa.table([*arrays, pa.array(block.lines, pa.int64())], schema=self._schema[0])


def _changed(path: str) -> RawFileError:
    return RawFileError(f"raw file {path} was changed while it was being loaded", hint="run again")
