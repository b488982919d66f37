"""Parquet files that pyarrow itself does not write: its own ones with another footer."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.maintenance.files.parquet import rewrite_parquet
from penstock.maintenance.files.parquet_footer import (
    Chunk,
    Element,
    File,
    Meta,
    chunks_of,
    groups_of,
    read_footer,
    write_footer,
)
from penstock.maintenance.files.replacing import replace
from penstock.maintenance.files.values import Rewritten, Where
from penstock.maintenance.thrift import BINARY, I32, LIST, STRUCT, Fields, Items
from penstock.storage.local import LocalFiles


def footer_of(file: Path) -> Fields:
    with file.open("rb") as stream:
        return read_footer(stream, Where(str(file)))


def change_footer(file: Path, change: Callable[[Fields], None]) -> None:
    """Write the file with another footer; what comes before stays where it is."""
    content = file.read_bytes()
    footer = footer_of(file)
    change(footer)
    (size,) = struct.unpack("<I", content[-8:-4])
    file.write_bytes(content[: -8 - size] + write_footer(footer))


def element_named(footer: Fields, name: str) -> Fields:
    (found,) = (each for each in footer.get(File.SCHEMA).values if each.get(Element.NAME) == name.encode())
    return found


def annotate(name: str, *, converted: int | None = None, logical: int | None = None, **more: Any) -> Any:
    """Give a column another meaning: its converted type, its logical type by number, precision and scale."""

    def change(footer: Fields) -> None:
        element = element_named(footer, name)
        element.drop(Element.CONVERTED, Element.LOGICAL)
        if converted is not None:
            element.set(Element.CONVERTED, I32, converted)
        if logical is not None:
            union = Fields()
            union.set(logical, STRUCT, more.get("inner", Fields()))
            element.set(Element.LOGICAL, STRUCT, union)
        for field, value in ((Element.PRECISION, more.get("precision")), (Element.SCALE, more.get("scale"))):
            if value is not None:
                element.set(field, I32, value)

    return change


def rename_element(old: str, new: str) -> Any:
    """Rename an element of the schema, in the paths of the chunks too."""

    def change(footer: Fields) -> None:
        element_named(footer, old).set(Element.NAME, BINARY, new.encode())
        for group in groups_of(footer):
            for chunk in chunks_of(group):
                meta = chunk.get(Chunk.META)
                path = [new.encode() if part == old.encode() else part for part in meta.get(Meta.PATH).values]
                meta.set(Meta.PATH, LIST, Items(BINARY, path))

    return change


def change_chunks(change: Callable[[Fields], None]) -> Any:
    """Apply a change to every column chunk."""

    def change_all(footer: Fields) -> None:
        for group in groups_of(footer):
            for chunk in chunks_of(group):
                change(chunk)

    return change_all


def find_ids(*ids: Any) -> Any:
    """Finds the rows whose column `id` is one of these."""

    def find_gone(rows: pa.Table) -> Any:
        column = rows.column("id")
        return pc.is_in(column, pa.array(ids, column.type))

    return find_gone


def all_chunk_bytes(file: Path) -> list[list[bytes]]:
    """The pages of every column chunk, by row group."""
    content = file.read_bytes()
    return [
        [_slice(content, chunk.get(Chunk.META)) for chunk in chunks_of(group)] for group in groups_of(footer_of(file))
    ]


def _slice(content: bytes, meta: Fields) -> bytes:
    start = min(place for field in (Meta.DATA, Meta.DICTIONARY) if (place := meta.get(field)))
    return content[start : start + meta.get(Meta.COMPRESSED)]


def chunk_bytes(file: Path, group: int, leaf: int) -> bytes:
    """The pages of a column chunk."""
    return all_chunk_bytes(file)[group][leaf]


def bits_of(value: Any) -> Any:
    """A value of `to_pylist` in which floats can be compared, NaN too."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return {name: bits_of(each) for name, each in value.items()}
    return (
        [bits_of(each) for each in value]
        if isinstance(value, Sequence) and not isinstance(value, str | bytes)
        else value
    )


def write_columns(file: Path, columns: dict[str, Any], **options: Any) -> pa.Table:
    """Write the columns; gives the rows as they are read back."""
    pq.write_table(pa.table(columns), file, **options)
    return pq.read_table(file)


def erase_ids(raw: LocalFiles, *ids: Any, columns: tuple[str, ...] = ("id",)) -> Rewritten:
    """Remove the rows with these ids from `orders/a.parquet`."""
    rewritten = rewrite_parquet(raw, "orders/a.parquet", columns, find_ids(*ids))
    replace(raw, rewritten)
    return rewritten
