"""Parquet files that cannot be kept as they are, or cannot be searched: refused before any write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.parquet_files import change_chunks, change_footer, erase_ids, find_ids, write_columns

from penstock.errors import RewriteError
from penstock.maintenance.files.parquet import rewrite_parquet
from penstock.maintenance.files.parquet_footer import Chunk, File, Group, Meta, groups_of
from penstock.maintenance.thrift import BINARY, I32, STRUCT, Fields
from penstock.storage.local import LocalFiles


@pytest.fixture
def file(raw: LocalFiles) -> Path:
    (raw.root / "orders").mkdir()
    return raw.root / "orders" / "a.parquet"


def refuse(raw: LocalFiles, *ids: Any, columns: tuple[str, ...] = ("id",)) -> RewriteError:
    before = (raw.root / "orders/a.parquet").read_bytes()
    with pytest.raises(RewriteError) as caught:
        rewrite_parquet(raw, "orders/a.parquet", columns, find_ids(*ids))
    assert (raw.root / "orders/a.parquet").read_bytes() == before
    assert [each.name for each in (raw.root / "orders").iterdir()] == ["a.parquet"], "nothing is left aside"
    assert "orders/a.parquet" in str(caught.value)
    return caught.value


def set_codec(code: int) -> Any:
    return change_chunks(lambda chunk: chunk.get(Chunk.META).set(Meta.CODEC, I32, code))


def unknown_field(footer: Fields) -> None:
    footer.set(77, I32, 1)


def encrypt(chunk: Fields) -> None:
    chunk.set(Chunk.CRYPTO, STRUCT, Fields())


REFUSED = {
    "LZO": (set_codec(3), "'id' is compressed with LZO"),
    "old LZ4": (set_codec(5), "'id' is compressed with the deprecated LZ4"),
    "a codec of the future": (set_codec(99), "'id' is compressed with codec 99"),
    "rows elsewhere": (
        change_chunks(lambda chunk: chunk.set(Chunk.FILE, BINARY, b"b.parquet")),
        "'id' is in another file",
    ),
    "an encrypted column": (change_chunks(encrypt), "'id' is encrypted"),
    "an encrypted file": (lambda footer: footer.set(File.ENCRYPTION, STRUCT, Fields()), "it is encrypted"),
    "a footer of the future": (unknown_field, "does not know (field 77)"),
    "a footer without a schema": (lambda footer: footer.drop(File.SCHEMA), "its footer is damaged"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept_is_refused_before_any_write(raw: LocalFiles, file: Path, case: str) -> None:
    write_columns(file, {"id": [1, 2]}, compression="lz4" if case == "old LZ4" else "none")
    change, message = REFUSED[case]
    change_footer(file, change)
    assert message in refuse(raw, 1).message


def test_a_codec_does_not_matter_where_no_row_goes(raw: LocalFiles, file: Path) -> None:
    """pyarrow cannot write LZO, but the second row group is only copied."""
    write_columns(file, {"id": [1, 2], "x": ["a", "b"]}, compression="none", row_group_size=1, use_dictionary=False)

    def change(footer: Fields) -> None:
        groups_of(footer)[1].get(Group.CHUNKS).values[1].get(Chunk.META).set(Meta.CODEC, I32, 3)

    change_footer(file, change)
    assert erase_ids(raw, 1).removed == 1


def test_other_files_are_refused(raw: LocalFiles, file: Path) -> None:
    file.write_bytes(b"not Parquet")
    assert "not a Parquet file" in refuse(raw, 1).message
    file.write_bytes(b"PARE" + bytes(20) + b"PARE")
    assert "it is encrypted" in refuse(raw, 1).message
    write_columns(file, {"id": ["secret"] * 100})
    content = bytearray(file.read_bytes())
    content[4:60] = bytes(56)
    file.write_bytes(bytes(content))
    assert "secret" not in str(refuse(raw, "x"))


def test_a_file_that_cannot_be_searched_is_refused(raw: LocalFiles, file: Path) -> None:
    write_columns(file, {"id": [1], "ID": [2]})
    assert "more than one column 'id'" in refuse(raw, 1).message
    assert "no column 'key'" in refuse(raw, 1, columns=("key",)).message


def test_a_missing_file_is_refused(raw: LocalFiles) -> None:
    with pytest.raises(RewriteError, match="no such file"):
        rewrite_parquet(raw, "orders/a.parquet", ["id"], find_ids(1))


def test_a_link_is_refused(raw: LocalFiles, file: Path) -> None:
    write_columns(file.with_name("b.parquet"), {"id": [1, 2]})
    file.symlink_to("b.parquet")
    with pytest.raises(RewriteError, match="symbolic link"):
        erase_ids(raw, 1)
    file.unlink()
    file.hardlink_to(file.with_name("b.parquet"))
    with pytest.raises(RewriteError, match="hard link"):
        erase_ids(raw, 1)


def test_rows_that_pyarrow_does_not_read_are_not_lost(raw: LocalFiles, file: Path) -> None:
    """pyarrow 26 writes such small pages of lists of booleans so that it reads no rows from them."""
    flags = pa.array([[False], [True]], pa.list_(pa.field("item", pa.bool_(), nullable=False)))
    options = {"data_page_version": "2.0", "data_page_size": 64, "use_dictionary": False, "row_group_size": 2}
    pq.write_table(pa.table({"id": [1, 2], "flags": flags}), file, **options)
    try:
        before = pq.ParquetFile(file).read()
    except pa.ArrowInvalid:
        assert "pyarrow cannot read it" in refuse(raw, 1).message
    else:
        erase_ids(raw, 1)
        assert pq.read_table(file).equals(before.take([1]))


def test_a_search_that_gives_no_clear_answer_is_an_error(raw: LocalFiles, file: Path) -> None:
    write_columns(file, {"id": [1, 2]})
    for answer in (pa.array([True, None]), pa.array([1, 0]), pa.array([True])):
        with pytest.raises(TypeError):
            rewrite_parquet(raw, "orders/a.parquet", ["id"], lambda _, answer=answer: answer)
