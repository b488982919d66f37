"""Every kind of file: a value that is planted in it is found, and one that is part of a longer value is not."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from tests.scanning import ANN, check_readable, found_in, needle, scan

from penstock.maintenance.scan import sources

LONGER = f"mary.{ANN}"
RECORDS = [{"id": number, "email": f"someone{number}@example.org", "note": "nothing"} for number in range(50)]


def json_lines(value: str) -> bytes:
    rows = [*RECORDS, {"id": 7, "email": value, "note": "x"}]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def json_document(value: str) -> bytes:
    return json.dumps({"rows": [*RECORDS, {"email": value}]}, indent=2).encode()


def csv_text(value: str) -> bytes:
    target = io.StringIO()
    writer = csv.writer(target)
    writer.writerows([["id", "email"], *([row["id"], row["email"]] for row in RECORDS), [7, value]])
    return target.getvalue().encode()


def log_lines(value: str) -> bytes:
    return f"12:00:00 INFO started\n12:00:01 WARN cannot send to <{value}>, retry\n".encode()


TEXTS: dict[str, Callable[[str], bytes]] = {
    "rows.json": json_lines,
    "document.json": json_document,
    "rows.csv": csv_text,
    "spark.log": log_lines,
    "wide.csv": lambda value: csv_text(value).decode().encode("utf-16"),
    "mark.json": lambda value: b"\xef\xbb\xbf" + json_lines(value),
    "offsets": lambda value: b"v1\n" + json_lines(value),
    "without_end": lambda value: f"x={value}".encode(),
}


def spark_lz4(content: bytes) -> bytes:
    """What LZ4BlockOutputStream of lz4-java writes: a compressed block, one that is not, and the end."""
    half = len(content) // 2
    packed = pa.compress(content[:half], "lz4_raw", asbytes=True)
    blocks = [(0x25, packed, half), (0x15, content[half:], len(content) - half), (0x15, b"", 0)]
    return b"".join(
        b"LZ4Block" + bytes([token]) + struct.pack("<iii", len(data), size, 0) + data for token, data, size in blocks
    )


def spark_snappy(content: bytes) -> bytes:
    """What SnappyOutputStream of snappy-java writes."""
    half = len(content) // 2
    parts = [pa.compress(part, "snappy", asbytes=True) for part in (content[:half], content[half:])]
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return header + b"".join(struct.pack(">i", len(part)) + part for part in parts)


def framed_snappy(content: bytes) -> bytes:
    half = len(content) // 2
    packed = pa.compress(content[:half], "snappy", asbytes=True)
    chunks = [(0x00, packed), (0xFE, b"padding"), (0x01, content[half:])]
    return b"\xff\x06\x00\x00sNaPpY" + b"".join(
        bytes([kind]) + (len(data) + 4 * (kind < 2)).to_bytes(3, "little") + bytes(4 * (kind < 2)) + data
        for kind, data in chunks
    )


def hadoop(content: bytes, codec: str) -> bytes:
    """What BlockCompressorStream of Hadoop writes."""
    half = len(content) // 2
    result = b""
    for part in (content[:half], content[half:]):
        packed = pa.compress(part, codec, asbytes=True)
        result += struct.pack(">II", len(part), len(packed)) + packed
    return result


def zipped(content: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner/rows.json", content)
    return target.getvalue()


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "rows.json.gz": gzip.compress,
    "members.json.gz": lambda content: gzip.compress(content[:100]) + gzip.compress(content[100:]),
    "rows.json.zst": zstandard.compress,
    "frames.json.zst": lambda content: zstandard.compress(content[:100]) + zstandard.compress(content[100:]),
    "rows.json.lz4": lambda content: pa.compress(content, "lz4", asbytes=True),
    "rows.json.bz2": bz2.compress,
    "app-1.lz4": spark_lz4,
    "shuffle_0_0_0.data": lambda content: spark_lz4(content[:200]) + spark_lz4(content[200:]),
    "app-1.snappy": spark_snappy,
    "rows.json.sz": framed_snappy,
    "hadoop.json.snappy": lambda content: hadoop(content, "snappy"),
    "hadoop.json.lz4": lambda content: hadoop(content, "lz4_raw"),
    "raw.json.snappy": lambda content: pa.compress(content, "snappy", asbytes=True),
    "rows.zip": zipped,
    "twice.json.gz.zst": lambda content: zstandard.compress(gzip.compress(content)),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("columns", [(), ("id",)])
def test_a_value_in_a_text_file_is_found(tmp_path: Path, name: str, columns: tuple[str, ...]) -> None:
    (tmp_path / name).write_bytes(TEXTS[name](ANN))
    result = scan(tmp_path, needle(ANN, columns=columns))
    assert found_in(result) == {(name, 0)}
    check_readable(result)


@pytest.mark.parametrize("name", TEXTS)
def test_a_part_of_a_longer_value_is_reported_apart(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(TEXTS[name](LONGER))
    result = scan(tmp_path, needle(ANN, columns=("id",)))
    assert result.hits == ()
    assert {(hit.file, hit.needle) for hit in result.inside} == {(name, 0)}
    assert result.is_clean


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_value_in_a_compressed_file_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(COMPRESSED[name](json_lines(ANN)))
    result = scan(tmp_path, needle(ANN, columns=("email",)), needle("7", 7, columns=("id",)))
    assert found_in(result) == {(name, 0), (name, 1)}
    check_readable(result)
    assert {count.method for count in result.methods} != {"bytes"}


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_part_of_a_longer_value_in_a_compressed_file_does_not_count(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(COMPRESSED[name](json_lines(LONGER)))
    result = scan(tmp_path, needle(ANN))
    assert result.is_clean
    assert len(result.inside) == 1
    check_readable(result)


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_damaged_compressed_file_is_listed_and_searched_as_bytes(tmp_path: Path, name: str) -> None:
    content = COMPRESSED[name](json_lines("nobody"))
    (tmp_path / name).write_bytes(content[: len(content) // 2] + b"\xff\xfe" + ANN.encode() + b"\xff")
    result = scan(tmp_path, needle(ANN))
    assert found_in(result) == {(name, 0)}
    assert len(result.undecoded) >= 1


def test_the_name_in_the_header_of_gzip_is_searched(tmp_path: Path) -> None:
    target = io.BytesIO()
    with gzip.GzipFile(f"export-{ANN}.csv", "wb", fileobj=target) as stream:
        stream.write(b"nothing")
    (tmp_path / "export.gz").write_bytes(target.getvalue())
    assert [hit.where for hit in scan(tmp_path, ANN).hits] == ["header of the compressed file"]


def test_the_names_in_a_zip_file_are_searched(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr(f"{ANN}.csv", "nothing")
    assert [hit.where for hit in scan(tmp_path, ANN).hits] == ["name in the zip file"]


def test_an_unknown_file_is_searched_as_bytes_and_listed(tmp_path: Path) -> None:
    (tmp_path / "state.bin").write_bytes(bytes(range(256)) + b"Mary" + ANN.encode() + b"Z" + bytes(10))
    result = scan(tmp_path, ANN)
    assert [(hit.where, hit.form) for hit in result.hits] == [("byte 260", "text")]
    assert [note.reason for note in result.undecoded] == ["unknown binary format; searched as bytes"]


def test_a_text_that_is_something_else_further_on_is_searched_as_bytes(tmp_path: Path) -> None:
    (tmp_path / "mixed.log").write_bytes(b"text\n" * 2000 + b"\xff\x00x" + ANN.encode())
    result = scan(tmp_path, ANN)
    assert found_in(result) == {("mixed.log", 0)}
    assert [note.reason for note in result.undecoded] == ["damaged or unsupported (NotTextError); searched as bytes"]


def test_a_half_written_line_is_listed(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_bytes(json_lines("nobody") + b'{"id": 8, "ema')
    result = scan(tmp_path, needle("7", 7, columns=("id",)))
    assert found_in(result) == {("rows.json", 0)}
    assert "1 lines begin like JSON" in result.undecoded[0].reason


@pytest.fixture
def block(monkeypatch: pytest.MonkeyPatch) -> int:
    """A small size of blocks, so that a small file has many edges."""
    size = 1 << 14
    monkeypatch.setattr(sources, "BLOCK", size)
    return size


@pytest.mark.parametrize("place", [-40, -22, -12, -1, 0, 5])
@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_a_value_at_the_edge_of_a_block_is_found_once(tmp_path: Path, block: int, place: int, kind: str) -> None:
    filler = b"a b c d\n" if kind == "text" else b"\x00\xff\x00\x01\x02\x03\x04\x05"
    before = (filler * (block // 8 + 8))[: block + place - 1] + b" "
    (tmp_path / "large").write_bytes(before + ANN.encode() + b" " + filler * (block // 8))
    result = scan(tmp_path, ANN)
    assert len(result.hits) == 1
    assert result.hits[0].where == (f"line {before.count(10) + 1}" if kind == "text" else f"byte {len(before)}")


def test_a_longer_value_at_the_edge_of_a_block_does_not_count(tmp_path: Path, block: int) -> None:
    for shift in range(-40, 10, 3):
        before = b"x" * (block + shift - 1) + b" "
        (tmp_path / "large.txt").write_bytes(before + LONGER.encode() + b"s " + b"y" * block)
        assert scan(tmp_path, ANN).hits == ()


def test_an_empty_file_is_searched(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").touch()
    result = scan(tmp_path, ANN)
    assert result.is_clean
    assert [(count.method, count.files) for count in result.methods] == [("empty", 1)]


def test_deletion_vectors_and_checksums_are_known(tmp_path: Path) -> None:
    vector = (1681511377).to_bytes(4, "little") + bytes(20)
    stored = b"\x01" + len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")
    (tmp_path / "deletion_vector_1.bin").write_bytes(stored)
    (tmp_path / ".part-0.parquet.crc").write_bytes(b"crc\x00\x00\x00\x02\x00\xab\xcd\xef\x01")
    result = scan(tmp_path, ANN)
    check_readable(result)
    assert {count.method for count in result.methods} == {"deletion vectors", "checksums of Hadoop"}
    (tmp_path / "deletion_vector_1.bin").write_bytes(stored + ANN.encode())
    damaged = scan(tmp_path, ANN)
    assert found_in(damaged) == {("deletion_vector_1.bin", 0)}
    assert len(damaged.undecoded) == 1
