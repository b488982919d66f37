"""What becomes of each kind of CSV file: its columns and rows, or an error that names the line."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.raw_text import Arrived, arrive

from penstock.errors import RawFileError
from penstock.model.text_files import OnBadRow, TextFiles
from penstock.storage.text import csv_blocks
from penstock.storage.text.landing import BAD_PROBLEM, BAD_ROW, LINE

ASIDE = {"on_bad_row": OnBadRow.QUARANTINE}


def read(folder: Path, content: bytes | str, name: str = "1.csv", **settings: Any) -> Arrived:
    return arrive(folder, content, name, settings=TextFiles(**settings))


@pytest.mark.parametrize(
    ("content", "settings", "rows"),
    [
        ("a,b\n1,x\n", {}, [{"a": 1, "b": "x"}]),
        ("a,b\r\n1,x\r\n", {}, [{"a": 1, "b": "x"}]),
        ("a,b\n1,x", {}, [{"a": 1, "b": "x"}]),
        ("\ufeffa,b\n1,x\n", {}, [{"a": 1, "b": "x"}]),
        ("\n\na,b\n\n1,x\n\n", {}, [{"a": 1, "b": "x"}]),
        ('a,b\n"1","x,\r\n""y"""\n', {}, [{"a": 1, "b": 'x,\r\n"y"'}]),
        ("a\tb\n1\tx\n", {"delimiter": "\t"}, [{"a": 1, "b": "x"}]),
        ("a|b\n1|'x|y'\n", {"delimiter": "|", "quote": "'"}, [{"a": 1, "b": "x|y"}]),
        ('a,b\n1,5" nail\n', {"quote": ""}, [{"a": 1, "b": '5" nail'}]),
        ('a,b\n1,"x\\"\\\\y"\n', {"escape": "\\"}, [{"a": 1, "b": 'x"\\y'}]),
        ("1,x\n2,y\n", {"header": False}, [{"_c0": 1, "_c1": "x"}, {"_c0": 2, "_c1": "y"}]),
        (",b\n1,x\n", {}, [{"_c0": 1, "b": "x"}]),
        ('a,b\n,""\n1,x\n', {}, [{"a": None, "b": ""}, {"a": 1, "b": "x"}]),
        ('a,b\n"",""\n1,x\n', {"quoted_null": True}, [{"a": None, "b": None}, {"a": 1, "b": "x"}]),
        ('a,b\n\\N,"\\N"\n1,\n', {"null_text": "\\N"}, [{"a": None, "b": "\\N"}, {"a": 1, "b": ""}]),
        ('a,b\n1,x\n"2",', {}, [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        ('a,b\n1,x\n"2",""', {}, [{"a": 1, "b": "x"}, {"a": 2, "b": ""}]),
        ("a\n1\n\n3\n", {}, [{"a": 1}, {"a": None}, {"a": 3}]),
        ("a, b\n1, x \n", {}, [{"a": 1, " b": " x "}]),
        ("a,b\n1,é\n".encode("latin-1"), {"encoding": "latin-1"}, [{"a": 1, "b": "é"}]),
        ("a,b\n1,€\n".encode("cp1252"), {"encoding": "cp1252"}, [{"a": 1, "b": "€"}]),
        ("a,b\n1,é\n".encode("utf-16"), {"encoding": "utf-16"}, [{"a": 1, "b": "é"}]),
        ("", {}, []),
        ("\ufeff", {}, []),
        ("a,b\n", {}, []),
        ("a,b", {}, []),
    ],
)
def test_records_arrive(tmp_path: Path, content: bytes | str, settings: dict[str, Any], rows: list[Any]) -> None:
    assert read(tmp_path, content, **settings).rows == rows


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("a,b\n1,2\n3\n", {}, "line 3: it has 1 field, but the file has 2 columns: nothing for the column 'b'"),
        ("a,b\n1,2\n\n3,4,5\n", {}, "line 4: it has 3 fields, but the file has 2 columns"),
        ('a,b\n"x\ny",2\n3\n', {}, "line 4: it has 1 field"),
        ('a,b\n1,"x\n2,y\n', {}, "line 2: a quoted field does not end"),
        ('a,b\n1,"x\n2,"y"\n', {}, "line 2: its quotes are not escaped"),
        ('a,b\n1,"x"y\n', {}, "line 2: its quotes are not escaped"),
        ('a,b\n1,x"y\n', {}, "line 2: its quotes are not escaped"),
        ('a,b\n1,"x\\"y"\n', {}, "line 2: its quotes are not escaped"),
        ("a,b\n1,x\\y\n", {"escape": "\\"}, "line 2: an escape is not before a quote"),
        ("a,b\n1,2\r3\n", {}, "line 2: it has a carriage return in it"),
        ("a,b\r1,2\r", {}, "line 1: the header cannot be read: lines end with CR alone"),
        (b"a,b\n1,\xe9\n", {}, "line 2: it has bytes that are not text in this encoding"),
        (b"a,\xe9\n1,2\n", {}, "line 1: the header cannot be read"),
        (b"a,b\n1,\x81\n", {"encoding": "cp1252"}, "line 2: it has bytes that are not text"),
        (b"a,b\n1,x\0y\n", {}, "line 2: it has a NUL byte"),
        ("a,b\n1,2\n".encode("utf-16"), {}, "line 1: the header cannot be read"),
        (b"\xff\xfea\0,", {"encoding": "utf-16"}, "are not utf-16 text"),
        ("a,b,A\n1,2,3\n", {}, "columns 'a' and 'A' differ only by case"),
        ("a,b,a\n", {}, "column 'a' appears twice"),
        ('a,"b\n1,2\n', {}, "line 1: the header cannot be read: a quoted field does not end"),
    ],
)
def test_a_file_that_is_not_certain_is_refused_with_its_line(
    tmp_path: Path, content: bytes | str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(RawFileError) as caught:
        read(tmp_path, content, **settings)
    assert message in caught.value.message
    assert caught.value.message.startswith("raw file 1.csv")
    assert caught.value.hint


def test_bad_records_are_put_aside_with_their_lines_and_fields(tmp_path: Path) -> None:
    content = b'id,name\n1,a\n2\n3,b,c\n4,"x"y\n5,6"\n6,\xe9\n7,\0\n8,"e\nf"\n9,"g"\n'
    arrived = read(tmp_path, content, **ASIDE)
    assert [(row["id"], line) for row, line in zip(arrived.rows, arrived.lines, strict=True)] == [
        (1, 2),
        (8, 9),
        (9, 11),
    ]
    found = {row[LINE]: json.loads(row[BAD_ROW]) for row in arrived.bad}
    assert found == {
        3: {"id": "2"},
        4: {"id": "3", "name": "b", "_extra1": "c"},
        5: {"_line": '4,"x"y'},
        6: {"_line": '5,6"'},
        7: {"id": "6", "name": "\\xe9"},
        8: {"id": "7", "name": "\ufffd"},
    }
    assert arrived.footer.rows == 9
    assert arrived.footer.bad_rows == 6
    assert all(row[BAD_PROBLEM] for row in arrived.bad)


def test_all_lines_that_a_wrong_quote_may_belong_to_are_put_aside_together(tmp_path: Path) -> None:
    """A quote that is not closed looks like the start of a long field: no line in between is certain."""
    arrived = read(tmp_path, 'a,b\n1,x\n2,"y\n3,z\n4,"w"\n5,"v\nu"\n6,"p\nq","r"s\n7,t\n', **ASIDE)
    assert arrived.values("a") == [1, 5, 7]
    found = {row[LINE]: json.loads(row[BAD_ROW])["_line"] for row in arrived.bad}
    assert found == {3: '2,"y\n3,z\n4,"w"', 8: '6,"p\nq","r"s'}


def test_a_quote_that_is_never_closed_is_refused_whatever_is_declared(tmp_path: Path) -> None:
    with pytest.raises(RawFileError, match="line 3: a quoted field does not end"):
        read(tmp_path, 'a,b\n1,x\n2,"y\n3,z\n', **ASIDE)


def test_many_faults_of_quotes_are_put_aside_in_time(tmp_path: Path) -> None:
    """All that follows a fault is looked at again: that must not be the whole file each time."""
    content = "a,b\n" + '1,"x"y\n2,"z"\n' * 500 + "3,w\n" * 200_000
    arrived = read(tmp_path, content, **ASIDE)
    assert (len(arrived.rows), len(arrived.bad)) == (200_500, 500)
    assert (arrived.lines[0], arrived.lines[-1], arrived.bad[-1][LINE]) == (3, 201_001, 1_000)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".csv.bz2", ".csv.zst", ".CSV.GZ"])
def test_compressed_files_arrive(tmp_path: Path, ending: str) -> None:
    plain = b"a,b\n1,x\n"
    packed = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": _compress_zstd}.get(ending.lower()[4:], bytes)(plain)
    assert read(tmp_path, packed, f"1{ending}").rows == [{"a": 1, "b": "x"}]


def test_several_gzip_members_are_one_file(tmp_path: Path) -> None:
    content = gzip.compress(b"a,b\n1,x\n") + gzip.compress(b"2,y\n")
    assert read(tmp_path, content, "1.csv.gz").values("a") == [1, 2]


@pytest.mark.parametrize("content", [gzip.compress(b"a,b\n1,x\n" * 50)[:-9], b"a,b\n1,x\n"], ids=["cut", "plain"])
def test_a_damaged_compressed_file_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(RawFileError, match="damaged, or compressed in another way"):
        read(tmp_path, content, "1.csv.gz")


def test_an_empty_compressed_file_has_no_records(tmp_path: Path) -> None:
    assert read(tmp_path, b"", "1.csv.gz").rows == []


def test_a_record_that_never_ends_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_blocks, "LONGEST_RECORD", 100)
    monkeypatch.setattr("penstock.storage.text.streams.PIECE", 50)
    with pytest.raises(RawFileError, match="line 3: a record has more than 100 bytes"):
        read(tmp_path, 'a,b\n1,2\n3,"' + "x\n" * 500)


def test_a_large_record_is_no_bad_one(tmp_path: Path) -> None:
    large = "x\n" * 1_200_000
    arrived = read(tmp_path, f'a,b\n1,2\n3,"{large}"\n4,5\n')
    assert [len(row["b"]) for row in arrived.rows] == [1, len(large), 1]
    assert arrived.lines == [2, 3, 1_200_004]


def test_a_file_that_changes_between_plan_and_load_is_noticed(tmp_path: Path) -> None:
    from penstock.storage.local import LocalFiles
    from penstock.storage.text.landing import Landing

    arrived = read(tmp_path, "a\n1\n2\n")
    (tmp_path / "1.csv").write_text("a\n1\n3\n")
    files = LocalFiles(tmp_path)
    with pytest.raises(RawFileError, match="changed while it was being loaded"):
        Landing(files, files, TextFiles()).land("1.csv", arrived.footer, arrived.footer.columns, "landed/2.parquet")
    assert not (tmp_path / "landed/2.parquet").exists()


def _compress_zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, "zstd", asbytes=True))
