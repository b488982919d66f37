"""Proof that a rewritten Parquet file is the old one without the rows that are gone. Raises; never corrects."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.maintenance.files.checksum import RowsDigest
from penstock.maintenance.files.parquet_encode import read_column
from penstock.maintenance.files.parquet_footer import (
    Chunk,
    File,
    Group,
    Meta,
    chunks_of,
    groups_of,
    read_footer,
    start_of,
)
from penstock.maintenance.files.parquet_pages import read_range
from penstock.maintenance.files.parquet_raw import open_raw, to_raw_metadata
from penstock.maintenance.files.values import Where
from penstock.maintenance.thrift import Fields

_FACTS = "path name physical_type converted_type max_definition_level max_repetition_level length precision scale"


def verify_parquet(old: BinaryIO, before: Fields, new: BinaryIO, keeps: Sequence[Any], where: Where) -> str:
    """Check footers, rows and values; return the checksum of the rows that stay, which both files have.

    `before` is the footer of the old file; that of the new one is read back.
    """
    after = read_footer(new, where)
    _check_footers(before, after, where)
    _check_schemas(old, new, where)
    _check_counts(before, after, keeps, where)
    files = _Sums(old, before), _Sums(new, after)
    total = hashlib.sha256()
    kept = [number for number, keep in enumerate(keeps) if keep is None or keep.true_count]
    for now, number in enumerate(kept):
        total.update(_check_group(*files, number, now, keeps[number], where).encode())
    return total.hexdigest()


def _check_footers(before: Fields, after: Fields, where: Where) -> None:
    """Everything that the footer says about the file as a whole: schema, key-value metadata, writer, orders of columns."""
    for number in sorted({*before.items, *after.items} - {File.ROWS, File.GROUPS}):
        if before.items.get(number) != after.items.get(number):
            raise _failed("its schema or its metadata are not the same", where)


def _check_schemas(old: BinaryIO, new: BinaryIO, where: Where) -> None:
    """The same once more, as pyarrow sees it; it does not know every type of newer writers."""
    try:
        known = _describe(pq.read_metadata(_rewind(old)))
    except (pa.ArrowException, OSError):
        return
    for before, after in zip(known, _describe(pq.read_metadata(_rewind(new))), strict=True):
        if before != after:
            raise _failed(f"the column {before[0]!r} does not have the same type, or metadata differ", where)


def _rewind(stream: BinaryIO) -> BinaryIO:
    stream.seek(0)
    return stream


def _describe(metadata: Any) -> list[tuple[Any, ...]]:
    schema = metadata.schema
    columns = [schema.column(place) for place in range(len(schema))]
    found = [(*(getattr(column, fact) for fact in _FACTS.split()), str(column.logical_type)) for column in columns]
    return [*found, ("", metadata.metadata)]


def _check_counts(before: Fields, after: Fields, keeps: Sequence[Any], where: Where) -> None:
    kept = [
        group.get(Group.ROWS) if keep is None else keep.true_count
        for group, keep in zip(groups_of(before), keeps, strict=True)
        if keep is None or keep.true_count
    ]
    found = [group.get(Group.ROWS) for group in groups_of(after)]
    if found != kept or sum(found) != after.get(File.ROWS):
        raise _failed("the number of rows is wrong", where)


class _Sums:
    """Checksums of the row groups of one file."""

    def __init__(self, stream: BinaryIO, footer: Fields) -> None:
        self._stream = stream
        self._groups = groups_of(footer)
        self._raw = open_raw(stream, to_raw_metadata(footer))

    def of_bytes(self, number: int) -> str:
        """Of the pages as they are stored."""
        digest = hashlib.sha256()
        for chunk in chunks_of(self._groups[number]):
            meta = chunk.get(Chunk.META)
            digest.update(read_range(self._stream, start_of(meta), meta.get(Meta.COMPRESSED)))
        return digest.hexdigest()

    def of_rows(self, number: int, keep: Any) -> str:
        """Of the values, bit by bit, in order."""
        total = hashlib.sha256()
        for field in self._raw.schema_arrow:
            digest = RowsDigest()
            digest.add(read_column(self._raw, number, field, keep).column(0))
            total.update(digest.hexdigest().encode())
        return total.hexdigest()


def _check_group(before: _Sums, after: _Sums, number: int, now: int, keep: Any, where: Where) -> str:
    if keep is None and (same := before.of_bytes(number)) == after.of_bytes(now):
        return same
    if (same := before.of_rows(number, keep)) != after.of_rows(now, None):
        raise _failed("the rows that stay are not the same", where)
    return same


def _failed(what: str, where: Where) -> Exception:
    return where.refuse(f"in the new file {what}", hint="please report this, with the schema of the file")
