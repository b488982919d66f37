"""A Parquet file written again without some of its rows. Row groups that lose none are copied byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import StorageError
from penstock.maintenance.files.contents import aside_path, open_source, write_aside
from penstock.maintenance.files.parquet_dictionaries import Dictionaries
from penstock.maintenance.files.parquet_encode import BATCH, Encoder
from penstock.maintenance.files.parquet_footer import (
    Chunk,
    Element,
    File,
    Group,
    Meta,
    chunks_of,
    groups_of,
    leaves_of,
    read_footer,
    top_elements,
)
from penstock.maintenance.files.parquet_raw import has_order, open_raw, to_raw_metadata
from penstock.maintenance.files.parquet_verify import verify_parquet
from penstock.maintenance.files.parquet_write import write_parquet
from penstock.maintenance.files.values import RecordError, Rewritten, Where
from penstock.maintenance.thrift import Fields
from penstock.model.schema import Footer
from penstock.storage.files import Files

FindGone = Callable[[Any], Any]
"""From a `pyarrow.Table` with the columns asked for, some rows at a time, to a boolean array: True for each row that must go."""


def rewrite_parquet(
    files: Files,
    path: str,
    columns: Sequence[str],
    find_gone: FindGone,
    read_kept: Callable[[Files, str], Footer] | None = None,
) -> Rewritten:
    """Write the file again, aside, without the rows that `find_gone` finds; refuse what would not stay as it was.

    `columns` are the top-level columns that it needs, in any case. `read_kept` reads what the caller keeps of the new footer.
    """
    where = Where.of(files, path)
    with open_source(files, path) as source, _problems_named(where):
        footer = read_footer(source.stream, where)
        keeps = _find_keeps(source.stream, footer, columns, find_gone, where)
        old = replace(source.content, rows=footer.get(File.ROWS))
        if all(keep is None for keep in keeps):
            return Rewritten(path, old, old)
        raw = open_raw(source.stream, to_raw_metadata(footer))
        leaves = leaves_of(footer)
        stale = Dictionaries(footer, leaves, raw, source.stream, keeps).find_stale()
        encoder = Encoder(footer, leaves, where, stale)
        encoder.check(raw, [number for number, keep in enumerate(keeps) if keep is not None and keep.true_count])
        survivors: list[str] = []

        def write(target: BinaryIO) -> int:
            return int(write_parquet(target, source.stream, raw, encoder, keeps).get(File.ROWS))

        def verify(target: BinaryIO) -> None:
            survivors.append(verify_parquet(source.stream, footer, target, keeps, where))
            _check_gone(target, columns, find_gone, where)

        new = write_aside(source, write, verify)
    aside = aside_path(path)
    notes = tuple(_find_losses(encoder, keeps))
    return Rewritten(path, old, new, aside, survivors[0], notes, read_kept(files, aside) if read_kept else None)


def _find_keeps(
    stream: BinaryIO, footer: Fields, columns: Sequence[str], find_gone: FindGone, where: Where
) -> list[Any]:
    """For each row group the rows to keep, as a boolean array; None where all stay."""
    tops = _find_columns(footer, columns, where)
    Encoder(footer, leaves_of(footer), where).check_readable(tops)
    file = open_raw(stream, to_raw_metadata(footer, set(tops)))
    names = [f"e{top_elements(footer)[top]}" for top in tops]
    keeps: list[Any] = []
    for number, group in enumerate(groups_of(footer)):
        masks = [pa.array([], pa.bool_())]
        for batch in file.iter_batches(BATCH, row_groups=[number], columns=names):
            given = pa.table([_plain(batch.column(name)) for name in names], names=list(columns))
            masks.append(_find_kept(find_gone(given), batch.num_rows))
        keep = pa.concat_arrays(masks)
        if len(keep) != group.get(Group.ROWS):
            raise where.refuse("a row group does not have as many rows as the footer says")
        keeps.append(None if keep.true_count == len(keep) else keep)
    return keeps


def _find_columns(footer: Fields, wanted: Sequence[str], where: Where) -> list[int]:
    """The places of the columns that are wanted; like Spark, without regard to case."""
    elements = footer.get(File.SCHEMA).values
    there = [elements[place].get(Element.NAME).decode("utf-8", "replace").lower() for place in top_elements(footer)]
    for name in wanted:
        if there.count(name.lower()) != 1:
            has = "more than one column" if name.lower() in there else "no column"
            raise where.refuse(f"it has {has} {name!r}, so that it cannot be searched")
    return [there.index(name.lower()) for name in wanted]


def _plain(column: Any) -> Any:
    return column.storage if isinstance(column.type, pa.BaseExtensionType) else column


def _find_kept(gone: Any, rows: int) -> Any:
    mask = gone.combine_chunks() if isinstance(gone, pa.ChunkedArray) else gone
    if not pa.types.is_boolean(mask.type) or mask.null_count or len(mask) != rows:
        raise TypeError("find_gone must return one true or false for each row")
    return pc.invert(mask)


def _check_gone(target: BinaryIO, columns: Sequence[str], find_gone: FindGone, where: Where) -> None:
    footer = read_footer(target, where)
    if any(keep is not None for keep in _find_keeps(target, footer, columns, find_gone, where)):
        raise where.refuse("the new file still has rows that must go", hint="please report this")


def _find_losses(encoder: Encoder, keeps: Sequence[Any]) -> Iterator[str]:
    """What the column chunks that were written again no longer have."""
    for leaf in encoder.leaves:
        metas = [
            chunks_of(group)[leaf.place].get(Chunk.META)
            for number, (group, keep) in enumerate(zip(groups_of(encoder.footer), keeps, strict=True))
            if (keep is not None and keep.true_count) or (number, leaf.top) in encoder.stale
        ]
        if any(meta.get(Meta.BLOOM) for meta in metas):
            yield f"the column {leaf.name!r} no longer has a bloom filter in the row groups that were written again"
        if any(_has_range(meta) for meta in metas) and not has_order(leaf, encoder.footer):
            yield f"the column {leaf.name!r} no longer has a range of values in the row groups that were written again"


def _has_range(meta: Fields) -> bool:
    statistics = meta.get(Meta.STATISTICS)
    return statistics is not None and (statistics.has(6) or statistics.has(2))


@contextmanager
def _problems_named(where: Where) -> Iterator[None]:
    """Turn errors of a damaged file into one that names it, without what the message may quote from it."""
    try:
        yield
    except RecordError as error:
        raise where.refuse(error.problem) from None
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(f"{where.address} cannot be read: {error.strerror}") from None
        kind = type(error).__name__
        raise where.refuse(f"pyarrow cannot read it ({kind})", hint="restore the file or remove it") from None
