"""What is checked before a new file is believed, and what happens when somebody else is faster."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from tests.parquet_files import find_ids

from penstock.errors import ConcurrentRunError, RewriteError, StorageError
from penstock.maintenance.files import parquet, text
from penstock.maintenance.files.parquet import rewrite_parquet
from penstock.maintenance.files.parquet_footer import read_footer
from penstock.maintenance.files.parquet_verify import verify_parquet
from penstock.maintenance.files.text import rewrite_text
from penstock.maintenance.files.text_format import TextFormat
from penstock.maintenance.files.values import Where
from penstock.storage.local import LocalFiles

WHERE = Where("a.parquet")
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "score": [0.5, None, float("nan")]})
KEEP = pa.array([True, False, True])


def to_bytes(rows: pa.Table, **options: Any) -> io.BytesIO:
    target = io.BytesIO()
    pq.write_table(rows, target, **options)
    return target


def verify(new: pa.Table, **options: Any) -> str:
    old = to_bytes(ROWS)
    return verify_parquet(old, read_footer(old, WHERE), to_bytes(new, **options), [KEEP], WHERE)


def test_the_right_rows_pass() -> None:
    assert verify(ROWS.take([0, 2])) == verify(ROWS.take([0, 2]), compression="none", use_dictionary=False)


REST = ROWS.take([0, 2])
WRONG = {
    "a row too few": (ROWS.take([0]), "the number of rows"),
    "a row too many": (ROWS, "the number of rows"),
    "another order": (ROWS.take([2, 0]), "the rows that stay"),
    "another row": (ROWS.take([0, 1]), "the rows that stay"),
    "another bit": (REST.set_column(2, "score", pa.array([0.5, 0.0])), "the rows that stay"),
    "a NULL": (REST.set_column(1, "name", pa.array(["a", None])), "the rows that stay"),
    "another type": (REST.set_column(0, "id", pa.array([1, 3], pa.int32())), "its schema"),
    "another name": (REST.rename_columns(["id", "name", "points"]), "its schema"),
    "other metadata": (REST.replace_schema_metadata({"a": "b"}), "its schema or its metadata"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_found(case: str) -> None:
    rows, message = WRONG[case]
    with pytest.raises(RewriteError, match=message):
        verify(rows)


def put(raw: LocalFiles) -> Path:
    file = raw.root / "a.parquet"
    pq.write_table(ROWS, file)
    return file


def check_untouched(raw: LocalFiles, before: bytes) -> None:
    assert [each.name for each in raw.root.iterdir()] == ["a.parquet"]
    assert (raw.root / "a.parquet").read_bytes() == before


def test_a_verification_that_fails_leaves_the_file_and_nothing_else(
    raw: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = put(raw).read_bytes()
    real = parquet.write_parquet

    def write_wrongly(*given: Any) -> Any:
        *others, keeps = given
        return real(*others, [pa.array([False, True, True]) for _ in keeps])

    monkeypatch.setattr(parquet, "write_parquet", write_wrongly)
    with pytest.raises(RewriteError, match="the rows that stay are not the same"):
        rewrite_parquet(raw, "a.parquet", ["id"], find_ids(2))
    check_untouched(raw, before)


def test_a_row_that_must_go_and_is_still_there_is_found(raw: LocalFiles) -> None:
    before = put(raw).read_bytes()
    asked = []

    def find_gone(rows: pa.Table) -> Any:
        asked.append(rows)
        return pa.array([len(asked) > 1 or each == 2 for each in rows["id"].to_pylist()])

    with pytest.raises(RewriteError, match="still has rows that must go"):
        rewrite_parquet(raw, "a.parquet", ["id"], find_gone)
    check_untouched(raw, before)


def test_a_text_copied_wrongly_is_found(raw: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    file = raw.root / "a.json"
    file.write_bytes(b'{"id": 1}\n{"id": 2}\n{"id": 3}\n')
    real = text._copy
    monkeypatch.setattr(text, "_copy", lambda plain, writer, _: real(plain, writer, [(0, 20)]))
    with pytest.raises(RewriteError, match="does not have exactly the other records"):
        rewrite_text(raw, "a.json", TextFormat(), lambda row: row["id"] == 1)
    assert [each.name for each in raw.root.iterdir()] == ["a.json"]


def test_a_column_that_is_damaged_is_found(raw: LocalFiles) -> None:
    file = put(raw)
    place = pq.read_metadata(file).row_group(0).column(1).dictionary_page_offset
    content = bytearray(file.read_bytes())
    content[place : place + 20] = bytes(20)
    file.write_bytes(content)
    with pytest.raises(RewriteError, match="pyarrow cannot read it"):
        rewrite_parquet(raw, "a.parquet", ["id"], find_ids(2))
    check_untouched(raw, bytes(content))


def test_a_file_that_is_written_meanwhile_is_not_replaced(raw: LocalFiles) -> None:
    file = put(raw)

    def find_gone(rows: pa.Table) -> Any:
        with file.open("ab") as stream:
            stream.write(b"")
        file.touch()
        return find_ids(2)(rows)

    with pytest.raises(ConcurrentRunError, match="changed while it was being rewritten"):
        rewrite_parquet(raw, "a.parquet", ["id"], find_gone)
    check_untouched(raw, file.read_bytes())


class Keys(pe.KmsClient):
    """Wraps keys by writing them beside each other: enough for a file that nobody should be able to read."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(master_key_identifier.encode() + b":" + key_bytes)

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key).partition(b":")[2]


@pytest.mark.parametrize("plain_footer", [True, False])
def test_an_encrypted_file_is_refused(raw: LocalFiles, plain_footer: bool) -> None:
    factory = pe.CryptoFactory(lambda _: Keys())
    settings = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["name"]}, plaintext_footer=plain_footer
    )
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), settings)
    with pq.ParquetWriter(raw.root / "a.parquet", ROWS.schema, encryption_properties=properties) as writer:
        writer.write_table(ROWS)
    before = (raw.root / "a.parquet").read_bytes()
    with pytest.raises(RewriteError, match="it is encrypted"):
        rewrite_parquet(raw, "a.parquet", ["id"], find_ids(2))
    check_untouched(raw, before)


def test_a_folder_that_cannot_be_written_is_named(raw: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    before = put(raw).read_bytes()

    def no_space(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "write_parquet", no_space)
    with pytest.raises(StorageError, match="No space left") as caught:
        rewrite_parquet(raw, "a.parquet", ["id"], find_ids(2))
    assert str(raw.root) in str(caught.value)
    check_untouched(raw, before)


def test_a_link_in_the_place_of_the_new_file_is_not_followed(raw: LocalFiles, tmp_path: Path) -> None:
    put(raw)
    (tmp_path / "precious").write_text("mine")
    (raw.root / ".a.parquet.rewritten").symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError):
        rewrite_parquet(raw, "a.parquet", ["id"], find_ids(2))
    assert (tmp_path / "precious").read_text() == "mine"
