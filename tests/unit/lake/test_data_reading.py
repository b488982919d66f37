"""Reading every data file of a table: what is not as it was written is found, and named."""

from __future__ import annotations

import zlib
from pathlib import Path
from struct import pack

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from builders import sums_of
from penstock.lake import data_reading
from penstock.lake.data_reading import find_unreadable
from penstock.lake.log_facts import LiveFile
from penstock.lake.stored_paths import Vector
from penstock.storage.local import LocalFiles

TABLE = "main/t"


def _make(root: Path, **how: object) -> Path:
    """A table of one file, and the file; delta-rs writes no checksums of pages, so that pyarrow writes it once more."""
    write_deltalake(str(root / TABLE), pa.table({"id": range(1000), "name": [f"n{i % 7}" for i in range(1000)]}))
    file = Path(DeltaTable(str(root / TABLE)).file_uris()[0])
    rows = pq.read_table(file)
    pq.write_table(rows, file, compression="NONE", use_dictionary=False, **how)
    _say_size(root, file.stat().st_size)
    return file


def _say_size(root: Path, size: int) -> None:
    import json

    commit = root / TABLE / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["size"] = size
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))


def _flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(bytes(content))


def test_a_page_with_another_value_does_not_match_its_checksum(tmp_path: Path) -> None:
    file = _make(tmp_path, write_page_checksum=True)
    files = LocalFiles(tmp_path)
    assert find_unreadable(files, TABLE) is None
    _flip(file, 2000)
    found = find_unreadable(files, TABLE)
    assert found is not None
    assert (found.code, file.name in found.text) == ("data_damaged", True)


def test_hadoop_s_checksums_prove_the_whole_file(tmp_path: Path) -> None:
    file = _make(tmp_path)
    beside = file.with_name(f".{file.name}.crc")
    files = LocalFiles(tmp_path)
    beside.write_bytes(sums_of(file.read_bytes()))
    assert find_unreadable(files, TABLE) is None
    sums = beside.read_bytes()
    for none in (b"", b"crc\0", b"nonsense" * 3, bytes(len(sums))):
        beside.write_bytes(none)
        assert find_unreadable(files, TABLE) is None, "Hadoop does without what is not a file of checksums"
    for wrong in (b"crc\0" + pack(">i", 0), sums[:-1]):
        beside.write_bytes(wrong)
        assert find_unreadable(files, TABLE) is not None, wrong
    beside.write_bytes(sums_of(file.read_bytes()))
    _flip(file, 2000)
    assert find_unreadable(files, TABLE) is not None
    beside.unlink()
    assert find_unreadable(files, TABLE) is None, "without any checksum it is a value like another"


def test_a_file_with_fewer_rows_than_the_log_says_is_found(tmp_path: Path) -> None:
    file = _make(tmp_path)
    rows = pq.read_table(file)
    pq.write_table(rows.slice(1), file)
    _say_size(tmp_path, file.stat().st_size)
    assert find_unreadable(LocalFiles(tmp_path), TABLE) is not None


def test_what_the_plan_would_find_is_found_first(tmp_path: Path) -> None:
    file = _make(tmp_path)
    file.unlink()
    found = find_unreadable(LocalFiles(tmp_path), TABLE)
    assert found is not None
    assert found.text.endswith("is missing")


@pytest.mark.parametrize(
    ("at", "is_sound"), [(None, True), (1, False), (5, False), (12, False)], ids=["sound", "length", "rows", "checksum"]
)
def test_a_deletion_vector_has_a_checksum(at: int | None, is_sound: bool, tmp_path: Path) -> None:
    rows = b"vector!"
    file = tmp_path / "t" / "deletion_vector_00000000-0000-0000-0000-000000000000.bin"
    file.parent.mkdir()
    file.write_bytes(b"\x01" + pack(">i", len(rows)) + rows + pack(">I", zlib.crc32(rows)))
    if at is not None:
        _flip(file, at)
    vector = Vector("u", "0" * 20, 1, len(rows), 1)
    assert vector.file == file.name
    live = LiveFile("file:///elsewhere/x.parquet", 1, vector)
    found = list(data_reading._iter_wrong(LocalFiles(tmp_path), "t", [live]))
    assert found == ([] if is_sound else [file.name])
