"""Text files without some records: every other byte stays, and what cannot be read is refused with its line."""

from __future__ import annotations

import bz2
import gzip
import json
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.text_files import erase_ann, is_ann, refuse_text, text_feed

from penstock.maintenance.files.envelopes import Row
from penstock.maintenance.files.replacing import replace
from penstock.maintenance.files.text import rewrite_text
from penstock.maintenance.files.text_format import TextFormat
from penstock.model.changes import FeedFiles
from penstock.storage.local import LocalFiles

A, B, C = b'{"id": "bob",  "x": 1.0}', b'{"id":"ann"}', b'{ "x": "\xc3\xa9", "id": "cy" }'

LINES = {
    "LF": (b"%s\n%s\n%s\n" % (A, B, C), b"%s\n%s\n" % (A, C)),
    "CR LF": (b"%s\r\n%s\r\n%s\r\n" % (A, B, C), b"%s\r\n%s\r\n" % (A, C)),
    "CR": (b"%s\r%s\r%s\r" % (A, B, C), b"%s\r%s\r" % (A, C)),
    "mixed": (b"%s\r\n%s\n%s\r" % (A, B, C), b"%s\r\n%s\r" % (A, C)),
    "no last line end": (b"%s\n%s\n%s" % (A, B, C), b"%s\n%s" % (A, C)),
    "last without line end": (b"%s\n%s" % (A, B), b"%s\n" % A),
    "blank lines": (b"\n%s\n\n %s\n\t\n%s\n\n" % (A, B, C), b"\n%s\n\n\t\n%s\n\n" % (A, C)),
    "byte order mark": (b"\xef\xbb\xbf%s\n%s\n" % (B, C), b"\xef\xbb\xbf%s\n" % C),
    "spaces around": (b"  %s  \n%s\n" % (B, C), b"%s\n" % C),
    "tombstones without a key": (b"null\n%s\n%s\n" % (B, C), b"null\n%s\n" % C),
    "bytes that are no text": (b'{"id": "\xff"}\n%s\n' % B, b'{"id": "\xff"}\n'),
    "an array in a line": (b"[%s, %s , %s]\n%s\n" % (A, B, C, A), b"[%s, %s]\n%s\n" % (A, C, A)),
    "an array with its last gone": (b"[%s, %s]\n" % (A, B), b"[%s]\n" % A),
    "all": (b"%s\n%s\n" % (B, B), b""),
}


@pytest.mark.parametrize("case", LINES)
def test_lines_of_json(raw: LocalFiles, case: str) -> None:
    before, after = LINES[case]
    found, rewritten = erase_ann(raw, before, text_feed())
    assert found == after
    assert rewritten.removed == before.count(B)


def test_records_are_counted(raw: LocalFiles) -> None:
    _, rewritten = erase_ann(raw, b"%s\n\n%s\n%s\n" % (A, B, C), text_feed())
    assert (rewritten.old.rows, rewritten.new.rows) == (3, 2)


def test_nothing_is_written_when_no_record_goes(raw: LocalFiles) -> None:
    _, rewritten = erase_ann(raw, b"%s\n%s" % (A, C), text_feed())
    assert rewritten.aside is None
    assert rewritten.new == rewritten.old


def test_names_are_found_in_any_case_and_numbers_are_exact(raw: LocalFiles) -> None:
    seen: list[Row] = []
    content = b'{"ID": 12345678901234567890123, "Price": 0.10, "n": {"A": 1}}\n'
    erase_ann(raw, content, text_feed(), is_gone=lambda row: bool(seen.append(row)))
    assert seen == [{"id": 12345678901234567890123, "price": Decimal("0.10"), "n": {"A": 1}}]


DOCUMENTS = {
    "an array": (b"[\n  %s,\n  %s,\n  %s\n]\n" % (A, B, C), b"[\n  %s,\n  %s\n]\n" % (A, C)),
    "the first goes": (b"[%s , %s]" % (B, C), b"[%s]" % C),
    "the last go": (b"[%s , %s,%s ]" % (A, B, B), b"[%s ]" % A),
    "all go": (b"[ %s , %s ]" % (B, B), b"[  ]"),
    "one object": (b'\n{\n"id":\n"ann"}\n', b"\n\n"),
    "byte order mark": (b"\xef\xbb\xbf[%s,%s]" % (A, B), b"\xef\xbb\xbf[%s]" % A),
    "empty": (b"  \n", b"  \n"),
    "empty array": (b"[ ]", b"[ ]"),
}


@pytest.mark.parametrize("case", DOCUMENTS)
def test_documents_of_json(raw: LocalFiles, case: str) -> None:
    before, after = DOCUMENTS[case]
    assert erase_ann(raw, before, text_feed(multiLine="true"))[0] == after


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("UTF-16", b"\xff\xfe"),
        ("UTF-16", b"\xfe\xff"),
        ("UTF-16BE", b""),
        ("UTF-16LE", b""),
        ("ISO-8859-1", b""),
        ("UTF-32LE", b""),
    ],
)
def test_documents_in_other_encodings(raw: LocalFiles, encoding: str, mark: bytes) -> None:
    codec = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(mark, encoding)
    before, after = '[{"id": "é"}, {"id": "ann"}, {"id": "ü"}]', '[{"id": "é"}, {"id": "ü"}]'
    found, _ = erase_ann(raw, mark + before.encode(codec), text_feed(multiLine="true", encoding=encoding))
    assert found == mark + after.encode(codec)


def test_lines_in_other_encodings(raw: LocalFiles) -> None:
    before, after = '{"id": "é"}\n{"id": "ann"}\n{"id": "\u0a0a"}\n', '{"id": "é"}\n{"id": "\u0a0a"}\n'
    wide = text_feed(encoding="UTF-16LE", lineSep="\n")
    assert erase_ann(raw, before.encode("utf-16-le"), wide)[0] == after.encode("utf-16-le")
    before, after = before[:26], after[:12]
    assert erase_ann(raw, before.encode("latin-1"), text_feed(charset="latin1"))[0] == after.encode("latin-1")
    assert (
        erase_ann(raw, before.replace("\n", "||").encode(), text_feed(lineSep="||"))[0]
        == after.replace("\n", "||").encode()
    )


@pytest.mark.parametrize(
    ("ending", "pack", "unpack"),
    [
        (".json.gz", gzip.compress, gzip.decompress),
        (".json.bz2", bz2.compress, bz2.decompress),
        (".json.deflate", zlib.compress, zlib.decompress),
        (".json", bytes, bytes),
    ],
)
def test_compressed_files_stay_compressed(raw: LocalFiles, ending: str, pack: Any, unpack: Any) -> None:
    before, after = LINES["CR LF"]
    found, rewritten = erase_ann(raw, pack(before), text_feed(), f"a{ending}")
    assert unpack(found) == after
    assert rewritten.new.size == len(found)


def test_zstd(raw: LocalFiles) -> None:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(LINES["LF"][0])
    found, _ = erase_ann(raw, sink.getvalue().to_pybytes(), text_feed(), "a.json.zst")
    assert pa.CompressedInputStream(pa.BufferReader(found), "zstd").read() == LINES["LF"][1]


def test_a_file_of_several_gzip_members(raw: LocalFiles) -> None:
    found, _ = erase_ann(raw, gzip.compress(A + b"\n" + B) + gzip.compress(b"\n" + C), text_feed(), "a.gz")
    assert gzip.decompress(found) == A + b"\n" + C


def test_damaged_and_unknown_compression_is_refused(raw: LocalFiles) -> None:
    packed = gzip.compress(LINES["LF"][0])
    assert "cannot be read (EOFError)" in refuse_text(raw, packed[:-9], text_feed(), "a.gz")
    (raw.root / "a.gz").unlink()
    assert "files that end in .snappy" in refuse_text(raw, packed, text_feed(), "a.json.snappy")


BAD_JSON = {
    b'{"id": 1}\n{"id": secret}\n': ":2: the file cannot be rewritten: the record is not valid JSON",
    b'{"id": 1}\n\n["secret"]\n': ":3: the file cannot be rewritten: the record is not a JSON object",
    b'{"id": 1} {"id": "secret"}\n': ":1: the file cannot be rewritten: something follows the record",
    b'{"id": 1, "id": "secret"}\n': ":1: the file cannot be rewritten: it has a field more than once",
    b'{"id": 1, "ID": "secret"}\n': ":1: the file cannot be rewritten: it has a field more than once",
    b"{'id': 'secret'}\n": ":1: the file cannot be rewritten: the record is not valid JSON",
    b'{"id": "ann"}\n{"id": "secret': ":2: the file cannot be rewritten: the record is not valid JSON",
    b"[" * 100_000: ":1: the file cannot be rewritten: the record is not valid JSON",
}


@pytest.mark.parametrize("content", BAD_JSON, ids=lambda content: content[:30].decode())
def test_a_record_that_cannot_be_read_is_refused_with_its_line(raw: LocalFiles, content: bytes) -> None:
    assert BAD_JSON[content] in refuse_text(raw, content, text_feed())


def test_a_document_that_cannot_be_read_is_refused_with_its_line(raw: LocalFiles) -> None:
    document = text_feed(multiLine="true")
    assert ":3: " in refuse_text(raw, b'[{"id": 1},\n{"id": 2},\n{"id" "secret"}]', document)
    assert ":2: " in refuse_text(raw, b'[{"id": 1}]\n[{"id": "secret"}]', document)
    assert "not utf-8 text" in refuse_text(raw, b'{"id": "\xff"}', document)
    assert "byte order mark of another encoding" in refuse_text(raw, '\ufeff{"id": 1}'.encode("utf-16-le"), document)


def debezium(before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "op": "u", **more}


ANN, BOB = {"id": "ann", "n": 1}, {"id": "bob", "n": 1}
OF_ANN = {
    "after": debezium(after=ANN),
    "before": debezium(before=ANN, after=BOB),
    "with a schema": {"schema": {}, "payload": debezium(before=ANN)},
    "message key": debezium(after=BOB, key=ANN),
    "message key with a schema": debezium(after=BOB, key={"schema": {}, "payload": ANN}),
    "message key as text": debezium(after=BOB, key=json.dumps(ANN)),
    "tombstone": {"key": ANN, "payload": None},
    "tombstone without a schema": {"key": ANN, "before": None, "after": None, "op": None},
    "row as text": debezium(after=json.dumps(ANN)),
    "names in upper case": {"Before": None, "AFTER": {"ID": "ann"}, "op": "c"},
}
OF_OTHERS = {
    "after": debezium(after=BOB),
    "truncate": {"before": None, "after": None, "op": "t"},
    "truncate that says more": {"before": {"id": "ann"}, "after": None, "op": "t", "key": {"id": "ann"}},
    "a tombstone of another": {"key": BOB, "payload": None},
    "the name elsewhere": debezium(after=BOB, source={"id": "ann"}),
}


@pytest.mark.parametrize("case", OF_ANN)
def test_debezium_records_of_the_key_go(raw: LocalFiles, case: str) -> None:
    others = [json.dumps(each).encode() for each in OF_OTHERS.values()]
    content = b"\n".join([*others, json.dumps(OF_ANN[case]).encode(), b"null", *others])
    found, rewritten = erase_ann(raw, content, text_feed(envelope="debezium"))
    assert found == b"\n".join([*others, b"null", *others])
    assert rewritten.removed == 1


def test_a_truncate_among_events_stays(raw: LocalFiles) -> None:
    lines = [b'{"operation": "TRUNCATE", "data": {"id": "ann"}}\n', b'{"operation": "delete", "data": {"id": "ann"}}\n']
    assert erase_ann(raw, b"".join(lines), text_feed(envelope="events"))[0] == lines[0]


def test_a_message_key_that_is_a_bare_value(raw: LocalFiles) -> None:
    tombstones = b'{"key": "bob", "payload": null}\n{"key": "ann", "payload": null}\n'
    assert "its message key, in the field 'key', is not an object" in refuse_text(
        raw, tombstones, text_feed(envelope="debezium")
    )
    known = TextFormat.of_feed(FeedFiles("feeds/people", envelope="debezium"), key_column="ID")
    assert erase_ann(raw, tombstones, known)[0] == b'{"key": "bob", "payload": null}\n'


def test_a_row_that_is_no_object_is_refused(raw: LocalFiles) -> None:
    assert "its field 'after' is not an object" in refuse_text(
        raw, b'{"op": "c", "after": "secret"}', text_feed(envelope="debezium")
    )
    assert "its field 'data' is not an object" in refuse_text(raw, b'{"data": [1]}', text_feed(envelope="events"))


def test_events(raw: LocalFiles) -> None:
    kept = b'{"operation": "DELETE", "data": {"id": "bob"}, "id": "ann"}\n{"operation": "TRUNCATE", "data": null}\n'
    gone = b'{"operation": "UPSERT", "data": {"Id": "ann"}}\n'
    assert erase_ann(raw, gone + kept + gone, text_feed(envelope="events"))[0] == kept


def test_a_large_file_is_read_in_parts(raw: LocalFiles) -> None:
    others = b"".join(b'{"id": "%07d", "text": "%s"}\r\n' % (number, b"x" * 90) for number in range(30_000))
    found, rewritten = erase_ann(raw, others + B + b"\r\n" + others, text_feed())
    assert found == others + others
    assert rewritten.old.rows == 60_001


def test_who_may_read_the_file_stays(raw: LocalFiles) -> None:
    file: Path = raw.root / "a.json"
    file.write_bytes(B)
    file.chmod(0o664)
    replace(raw, rewrite_text(raw, "a.json", text_feed(), is_ann))
    assert file.stat().st_mode & 0o777 == 0o664


def test_a_file_with_a_long_name(raw: LocalFiles) -> None:
    name = "x" * 250 + ".json"
    assert erase_ann(raw, LINES["LF"][0], text_feed(), name)[0] == LINES["LF"][1]
