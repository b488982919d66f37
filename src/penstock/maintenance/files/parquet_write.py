"""The new Parquet file: the chunks that stay byte for byte, those that were written again, and the old footer around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from penstock.maintenance.files.parquet_encode import Encoder
from penstock.maintenance.files.parquet_footer import MAGIC, Chunk, File, Group, Meta, groups_of, start_of, write_footer
from penstock.maintenance.files.parquet_pages import Piece, move
from penstock.maintenance.thrift import I16, I32, I64, LIST, STRUCT, Fields, Items, write_struct


def write_parquet(target: BinaryIO, source: BinaryIO, raw: Any, encoder: Encoder, keeps: Sequence[Any]) -> Fields:
    """Write the file again and return its footer. `keeps` has for each row group the rows to keep, or None for all of them.

    A row group without rows is left out.
    """
    target.write(MAGIC)
    groups: list[Fields] = []
    placed: list[Piece] = []
    for number, (old, keep) in enumerate(zip(groups_of(encoder.footer), keeps, strict=True)):
        if keep is not None and not keep.true_count:
            continue
        pieces = [_place(target, piece) for piece in encoder.pieces(raw, source, number, keep)]
        rows = old.get(Group.ROWS) if keep is None else keep.true_count
        groups.append(_to_group(old, pieces, int(rows), len(groups)))
        placed += pieces
    _write_apart(target, placed)
    footer = encoder.footer.copy()
    footer.set(File.GROUPS, LIST, Items(STRUCT, groups))
    footer.set(File.ROWS, I64, sum(group.get(Group.ROWS) for group in groups))
    target.write(write_footer(footer))
    return footer


def _place(target: BinaryIO, piece: Piece) -> Piece:
    moved = move(piece, target.tell())
    target.write(piece.content)
    return Piece(moved.chunk, b"", moved.column_index, moved.offset_index, moved.bloom_filter)


def _to_group(old: Fields, pieces: Sequence[Piece], rows: int, number: int) -> Fields:
    """The entry of a row group: what it said before, with sizes and places as they are now."""
    group = old.copy()
    group.set(Group.CHUNKS, LIST, Items(STRUCT, [piece.chunk for piece in pieces]))
    group.set(Group.ROWS, I64, rows)
    group.set(Group.BYTES, I64, _sum(pieces, Meta.UNCOMPRESSED))
    if group.has(Group.COMPRESSED):
        group.set(Group.COMPRESSED, I64, _sum(pieces, Meta.COMPRESSED))
    if group.has(Group.OFFSET):
        group.set(Group.OFFSET, I64, start_of(pieces[0].meta))
    if group.has(Group.ORDINAL):
        group.set(Group.ORDINAL, I16, number)
    return group


def _sum(pieces: Iterable[Piece], field: int) -> int:
    return sum(int(piece.meta.get(field)) for piece in pieces)


def _write_apart(target: BinaryIO, placed: Sequence[Piece]) -> None:
    """Bloom filters and indexes, which lie between the rows and the footer."""
    for piece in placed:
        if piece.bloom_filter is not None:
            piece.meta.set(Meta.BLOOM, I64, target.tell())
            piece.meta.set(Meta.BLOOM_SIZE, I32, target.write(piece.bloom_filter))
    for piece in placed:
        if piece.column_index is not None:
            piece.chunk.set(Chunk.INDEX, I64, target.tell())
            piece.chunk.set(Chunk.INDEX_SIZE, I32, target.write(piece.column_index))
    for piece in placed:
        if piece.offset_index is not None:
            piece.chunk.set(Chunk.OFFSETS, I64, target.tell())
            piece.chunk.set(Chunk.OFFSETS_SIZE, I32, target.write(write_struct(piece.offset_index)))
