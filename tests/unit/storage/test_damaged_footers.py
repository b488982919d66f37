"""Footers that would end the process if pyarrow were asked about them: each is an error of its file."""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption

from penstock.errors import RawFileError
from penstock.maintenance.files.parquet_footer import Chunk, File, Group, Meta, chunks_of, groups_of, write_footer
from penstock.maintenance.thrift import BINARY, I32, I64, LIST, Fields, Items, read_struct, to_plain
from penstock.storage.footers import read_footers, read_range
from penstock.storage.local import LocalFiles
from penstock.storage.thrift import ThriftError, read_plain

PATH = "orders/1.parquet"
_TABLE = pa.table({"a": [1, 2**60], "b": ["x", None], "c": [[1], [2]], "d": [{"x": 1.5}, {"x": 2.5}]})


def _split(table: pa.Table = _TABLE) -> tuple[bytes, bytes]:
    """A file without its footer, and the footer."""
    target = io.BytesIO()
    pq.write_table(table, target, row_group_size=1)
    content = target.getvalue()
    (length,) = struct.unpack("<I", content[-8:-4])
    return content[: -8 - length], content[-8 - length : -8]


def _write(raw: LocalFiles, change: Callable[[Fields], object], column: int = 0, group: int = 1) -> None:
    content, footer = _split()
    fields, _ = read_struct(footer)
    change(chunks_of(groups_of(fields)[group])[column])
    (raw.root / PATH).parent.mkdir(parents=True, exist_ok=True)
    (raw.root / PATH).write_bytes(content + write_footer(fields))


def _meta(chunk: Fields) -> Fields:
    return chunk.get(Chunk.META)


def _more_levels(number: int) -> Callable[[Fields], object]:
    return lambda chunk: _meta(chunk).get(Meta.SIZES).set(number, LIST, Items(I64, [1, 2, 3, 4, 5]))


@pytest.mark.parametrize(
    "change",
    [
        lambda chunk: _meta(chunk).set(Meta.CODEC, I32, 99),
        lambda chunk: _meta(chunk).set(Meta.CODEC, I32, -1),
        lambda chunk: _meta(chunk).set(Meta.TYPE, I32, 1),
        _more_levels(2),
        _more_levels(3),
        lambda chunk: _meta(chunk).get(Meta.SIZES).set(1, I64, 7),
    ],
    ids=["codec", "negative codec", "type", "repetitions", "definitions", "bytes"],
)
def test_damage_of_a_column_chunk_names_the_file_and_the_column(change: Any, raw: LocalFiles) -> None:
    _write(raw, change)
    with pytest.raises(
        RawFileError, match=f"raw file {PATH} is not a readable Parquet file .*the column 'a' is damaged"
    ):
        read_footers(raw, [PATH])
    with pytest.raises(RawFileError, match="is damaged"):
        read_range(raw, PATH, "a")


def test_a_row_group_must_have_every_column(raw: LocalFiles) -> None:
    content, footer = _split()
    fields, _ = read_struct(footer)
    chunks_of(groups_of(fields)[1]).pop()
    (raw.root / "orders").mkdir(parents=True, exist_ok=True)
    (raw.root / PATH).write_bytes(content + write_footer(fields))
    with pytest.raises(RawFileError, match="a row group has 3 columns, the schema has 4"):
        read_footers(raw, [PATH])


@pytest.mark.parametrize("rows", [-1, 0, 1, 10**9])
def test_a_footer_that_counts_other_rows_than_its_row_groups_is_damage(rows: int, raw: LocalFiles) -> None:
    """Else each run would load the table, count, and fail."""
    content, footer = _split()
    fields, _ = read_struct(footer)
    fields.set(File.ROWS, I64, rows)
    (raw.root / "orders").mkdir(parents=True, exist_ok=True)
    (raw.root / PATH).write_bytes(content + write_footer(fields))
    with pytest.raises(RawFileError, match=f"its footer counts {rows} rows, and its row groups have"):
        read_footers(raw, [PATH])


def test_lists_of_other_things_are_damage(raw: LocalFiles) -> None:
    """pyarrow does not look at what a list says that it has."""
    rest, footer = _split()
    (raw.root / PATH).parent.mkdir(parents=True, exist_ok=True)
    tried = 0
    for place, head in enumerate(footer):
        if head & 0x0F != 12:  # a list of structs, or a byte that looks like one
            continue
        for other in (5, 8, 9):
            changed = bytearray(footer)
            changed[place] = head & 0xF0 | other
            (raw.root / PATH).write_bytes(rest + bytes(changed) + struct.pack("<I", len(footer)) + b"PAR1")
            tried += 1
            with suppress(RawFileError):
                read_footers(raw, [PATH])
    assert tried > 10


@pytest.mark.parametrize("cut", [b"", b"abc"])
@pytest.mark.parametrize("end", [5, 6], ids=["largest", "smallest"])
def test_statistics_that_were_cut_say_nothing(cut: bytes, end: int, raw: LocalFiles) -> None:
    _write(raw, lambda chunk: _meta(chunk).get(Meta.STATISTICS).set(end, BINARY, cut), group=0)
    column = read_footers(raw, [PATH], frozenset({"a"}))[PATH].by_name["a"]
    assert (column.is_large, column.nulls) == (True, None)
    assert read_range(raw, PATH, "a") == (2**60, 2**60)


class _Keys(encryption.KmsClient):
    def __init__(self, _: Any) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64decode(key)


def test_an_encrypted_column_beside_a_plain_footer_is_named(raw: LocalFiles) -> None:
    settings = encryption.EncryptionConfiguration(footer_key="f", column_keys={"c": ["a"]}, plaintext_footer=True)
    properties = encryption.CryptoFactory(_Keys).file_encryption_properties(encryption.KmsConnectionConfig(), settings)
    (raw.root / "orders").mkdir(parents=True, exist_ok=True)
    table = pa.table({"a": [1], "b": [2]})
    with pq.ParquetWriter(raw.root / PATH, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    with pytest.raises(RawFileError, match=f"raw file {PATH}: column 'a' is encrypted"):
        read_footers(raw, [PATH])


def test_the_fast_reader_and_the_complete_one_agree() -> None:
    wide = pa.table({f"c{number}": [number * 1000, None] for number in range(40)})
    for table in (_TABLE, wide):
        _, footer = _split(table)
        found, _ = read_struct(footer)
        assert read_plain(footer) == to_plain(found)
        assert len(read_plain(footer)[File.GROUPS][0][Group.CHUNKS]) == table.num_columns


@pytest.mark.parametrize(
    "content",
    [b"", b"\x15", b"\x18\x7fx", b"\x1c" * 100_000, b"\x16" + b"\xff" * 20, b"\x1d\x00", b"\x19\xf5\xff\xff\x03\x00"],
)
def test_what_is_no_struct_is_refused(content: bytes) -> None:
    with pytest.raises(ThriftError):
        read_plain(content)


def test_an_empty_list_need_not_say_what_it_would_have() -> None:
    assert read_plain(b"\x19\x00\x15\x02\x00") == {1: [], 2: 1}
