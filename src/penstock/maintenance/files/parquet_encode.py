"""Row groups that lose rows: each column is read raw, filtered, and written again by pyarrow with the settings it had.

pyarrow's settings of a file become settings of one column, because every column is written as a file of its own; its chunk
is then taken out of it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.maintenance.files.parquet_footer import (
    Chunk,
    Leaf,
    Meta,
    Physical,
    chunks_of,
    groups_of,
    read_footer,
)
from penstock.maintenance.files.parquet_pages import Pages, Piece, read_pages, read_piece
from penstock.maintenance.files.parquet_raw import has_order, keeps_meaning
from penstock.maintenance.files.values import Where
from penstock.maintenance.thrift import STRUCT, Fields

BATCH = 1 << 16
_CODECS = {0: "none", 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4"}
_OLD_LZ4 = 5
_CODEC_NAMES = {3: "LZO", _OLD_LZ4: "the deprecated LZ4"}
_ENCODINGS = {
    3: "RLE",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY",
    9: "BYTE_STREAM_SPLIT",
}
_MIN_MAX = (1, 2, 5, 6, 7, 8)
"""Fields of Statistics that hold values, or say whether they are exact."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """Writes columns of one file again."""

    footer: Fields
    leaves: Sequence[Leaf]
    where: Where
    stale: frozenset[tuple[int, int]] = frozenset()
    """Row groups and top-level columns that are written again although they lose no row."""

    def check(self, raw: Any, groups: Sequence[int]) -> None:
        """Refuse what cannot be written again as it was, before any row is read: codecs, and shapes of nested columns."""
        for number in groups:
            for leaf, chunk in zip(self.leaves, chunks_of(groups_of(self.footer)[number]), strict=True):
                self._check_codec(leaf, chunk.get(Chunk.META).get(Meta.CODEC))
        for top, field in enumerate(raw.schema_arrow if groups else ()):
            self._check_shape(self._leaves_of(top), field)

    def check_readable(self, tops: Sequence[int]) -> None:
        """Refuse when these top-level columns are compressed in a way that pyarrow cannot read."""
        for group in groups_of(self.footer):
            for leaf, chunk in zip(self.leaves, chunks_of(group), strict=True):
                codec = chunk.get(Chunk.META).get(Meta.CODEC)
                if leaf.top in tops and codec != _OLD_LZ4:
                    self._check_codec(leaf, codec)

    def _check_codec(self, leaf: Leaf, codec: int) -> None:
        name = _CODECS.get(codec)
        if name is None or (name != "none" and not pa.Codec.is_available(name)):
            shown = name or _CODEC_NAMES.get(codec, f"codec {codec}")
            raise self.where.refuse(
                f"the column {leaf.name!r} is compressed with {shown}, which pyarrow cannot write",
                hint="write the file with another codec, such as zstd, then run again",
            )

    def _check_shape(self, leaves: Sequence[Leaf], field: Any) -> None:
        """Compare physical types and levels of what pyarrow would write, from a file without rows."""
        try:
            found = _write(pa.table([pa.array([], field.type)], schema=pa.schema([field])), {})
            schema = pq.read_metadata(io.BytesIO(found)).schema
        except (pa.ArrowException, NotImplementedError, ValueError):
            raise self._not_kept(leaves[0]) from None
        if len(schema) != len(leaves):
            raise self._not_kept(leaves[0])
        for place, leaf in enumerate(leaves):
            column = schema.column(place)
            if (column.max_definition_level, column.max_repetition_level) != leaf.levels:
                raise self._not_kept(leaf)

    def _not_kept(self, leaf: Leaf) -> Exception:
        return self.where.refuse(
            f"pyarrow cannot write the column {leaf.name!r} as it was", hint="write the file with simpler columns"
        )

    def _leaves_of(self, top: int) -> list[Leaf]:
        return [leaf for leaf in self.leaves if leaf.top == top]

    def pieces(self, raw: Any, stream: BinaryIO, number: int, keep: Any) -> Iterator[Piece]:
        """The column chunks of a row group: as they are when `keep` is None, else with only the rows that it marks."""
        chunks = chunks_of(groups_of(self.footer)[number])
        for top, field in enumerate(raw.schema_arrow):
            leaves = self._leaves_of(top)
            old = [read_piece(stream, chunks[leaf.place]) for leaf in leaves]
            is_whole = keep is None and (number, top) not in self.stale
            if is_whole and all(_look_at(piece) is not None for piece in old):
                yield from old
                continue
            for leaf, piece in zip(leaves, old, strict=True):
                self._check_codec(leaf, piece.meta.get(Meta.CODEC))
            yield from self._encode_column(read_column(raw, number, field, keep), leaves, old)

    def _encode_column(self, rows: Any, leaves: Sequence[Leaf], old: Sequence[Piece]) -> list[Piece]:
        settings = _find_settings(rows.schema, leaves, old)
        stream = io.BytesIO(_write(rows, settings))
        written = groups_of(read_footer(stream, self.where))
        if len(written) != 1:
            raise self._not_kept(leaves[0])
        found = []
        for leaf, before, chunk in zip(leaves, old, chunks_of(written[0]), strict=True):
            found.append(self._adopt(leaf, before, read_piece(stream, chunk)))
        return found

    def _adopt(self, leaf: Leaf, old: Piece, new: Piece) -> Piece:
        """The new chunk under the old column's name and type, with no statistics that would be wrong or that it did not have."""
        chunk, meta = new.chunk.copy(), new.meta.copy()
        for field in (Meta.TYPE, Meta.PATH, Meta.KEY_VALUES):
            if old.meta.has(field):
                meta.set(field, *old.meta.items[field])
        ordered = has_order(leaf, self.footer)
        if not ordered and meta.has(Meta.STATISTICS):
            statistics = meta.get(Meta.STATISTICS).copy()
            statistics.drop(*_MIN_MAX)
            meta.set(Meta.STATISTICS, STRUCT, statistics)
        chunk.set(Chunk.META, STRUCT, meta)
        return replace(
            new,
            chunk=chunk,
            column_index=new.column_index if old.column_index and ordered else None,
            offset_index=new.offset_index if old.offset_index is not None else None,
        )


def read_column(raw: Any, number: int, field: Any, keep: Any = None) -> Any:
    """The rows of one top-level column of a row group, in order: all, or those that `keep` marks.

    ValueError when pyarrow gives fewer rows than there are, as it does for some of the pages that it writes itself.
    """
    batches, place = [], 0
    for batch in raw.iter_batches(BATCH, row_groups=[number], columns=[field.name]):
        mask = None if keep is None else keep.slice(place, batch.num_rows)
        batches.append(batch if mask is None else batch.filter(mask))
        place += batch.num_rows
    if place != raw.metadata.row_group(number).num_rows:
        raise ValueError("rows are missing")
    return pa.Table.from_batches(batches, pa.schema([field]))


def _write(rows: Any, settings: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    pq.write_table(rows, target, row_group_size=max(1, rows.num_rows), store_schema=False, **settings)
    return target.getvalue()


def _find_settings(schema: Any, leaves: Sequence[Leaf], old: Sequence[Piece]) -> dict[str, Any]:
    """pyarrow's settings under which a column becomes what it was, as far as the old file shows them."""
    empty = pq.read_metadata(io.BytesIO(_write(schema.empty_table(), {}))).schema
    paths = [empty.column(place).path for place in range(len(empty))]
    pages = [_look_at(piece) or Pages() for piece in old]
    by_path = list(zip(paths, leaves, old, pages, strict=True))
    encodings = {path: name for path, leaf, _, page in by_path if (name := _find_encoding(leaf, page))}
    is_old = any(page.is_old_dictionary for page in pages) and not any(keeps_meaning(leaf.element) for leaf in leaves)
    return {
        "version": "1.0" if is_old else "2.6",
        "compression": {path: _CODECS[piece.meta.get(Meta.CODEC)] for path, _, piece, _ in by_path},
        "use_dictionary": [path for path, _, _, page in by_path if page.has_dictionary],
        "column_encoding": encodings or None,
        "write_statistics": [path for path, _, piece, _ in by_path if piece.meta.has(Meta.STATISTICS)],
        "data_page_version": "2.0" if any(page.is_version_2 for page in pages) else "1.0",
        "write_page_index": any(piece.offset_index is not None for piece in old),
        "write_page_checksum": any(page.has_checksums for page in pages),
    }


def _look_at(piece: Piece) -> Pages | None:
    """How a chunk was written; None for an odd layout, which pyarrow may still read, and which cannot be moved as it is."""
    try:
        return read_pages(piece.content)
    except (ValueError, AttributeError, TypeError):
        return None


def _find_encoding(leaf: Leaf, pages: Pages) -> str | None:
    if pages.has_dictionary:
        return None
    found = next((_ENCODINGS[code] for code in sorted(pages.encodings) if code in _ENCODINGS), None)
    is_boolean = leaf.element.get(1) == Physical.BOOLEAN
    return found if found != "RLE" or is_boolean else None
