"""CSV files without some records, read as Spark reads them; and options that are not understood."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from tests.text_files import erase_ann, refuse_text, text_feed

from penstock.errors import RewriteError
from penstock.maintenance.files.text_format import names_of
from penstock.storage.local import LocalFiles

CSV = {
    "plain": (b"id,n\nbob,1\nann,2\ncy,3\n", b"id,n\nbob,1\ncy,3\n", {}),
    "CR LF, no last line end": (b"id,n\r\nbob,1\r\nann,2\r\ncy,3", b"id,n\r\nbob,1\r\ncy,3", {}),
    "names in upper case": (b"ID,n\nann,2\n", b"ID,n\n", {}),
    "quotes": (b'"id","n"\n"ann","a,b"\n"bob" ,"a,b"\n', b'"id","n"\n"bob" ,"a,b"\n', {}),
    "escaped quotes": (b'id,n\n"ann","a\\"b, c"\n"bob","a\\"b, c\\\\"\n', b'id,n\n"bob","a\\"b, c\\\\"\n', {}),
    "doubled quotes": (b'n,id\n"a ""b"", c",ann\n"x, ""y""",bob\n', b'n,id\n"x, ""y""",bob\n', {"escape": '"'}),
    "doubled quotes that Spark is not told of": (
        b'n,id\n"a ""b"" c",ann\n"x ""y"" z",bob\n',
        b'n,id\n"x ""y"" z",bob\n',
        {},
    ),
    "another separator": (b"n;id\n1,0;ann\n2,0;bob\n", b"n;id\n2,0;bob\n", {"sep": ";"}),
    "tabs": (b"n\tid\n1\tann\n2\tbob\n", b"n\tid\n2\tbob\n", {"delimiter": "\\t"}),
    "another quote": (b"n,id\n'a,b',ann\n'a^'b',bob\n", b"n,id\n'a^'b',bob\n", {"quote": "'", "escape": "^"}),
    "no quotes": (b'n,id\n"a,ann\n"b,bob\n', b'n,id\n"b,bob\n', {"quote": ""}),
    "blank lines and comments": (b"\n#x\nid\n\nann\n#ann\nbob\n", b"\n#x\nid\n\n#ann\nbob\n", {"comment": "#"}),
    "spaces": (
        b"id , n\n ann ,1\nbob,2\n",
        b"id , n\nbob,2\n",
        {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"},
    ),
    "no header": (b"ann,1\nbob,2\n", b"bob,2\n", {"header": "false", "schema": "ID string, `the n` int"}),
    "byte order mark": (b"\xef\xbb\xbfid\nann\nbob\n", b"\xef\xbb\xbfid\nbob\n", {}),
    "Latin-1": (
        "id,n\nann,é\nbob,ü\n".encode("latin-1"),
        "id,n\nbob,ü\n".encode("latin-1"),
        {"encoding": "ISO-8859-1"},
    ),
    "short and long records": (b"n,id\n1\n1,ann,3\n1,bob,3\n", b"n,id\n1\n1,bob,3\n", {}),
    "lines in quotes": (b'n,id\n"a\n\nb",ann\n"c\r\nd",bob\n\n', b'n,id\n"c\r\nd",bob\n\n', {"multiLine": "true"}),
    "lines in quotes, CR LF": (b'n,id\r\n"a\nb",ann\r\n"c\nd",bob', b'n,id\r\n"c\nd",bob', {"multiLine": "true"}),
    "lines in quotes and comments": (
        b'#"\nn,id\n#"\n"a\n#b",ann\n"c",bob\n',
        b'#"\nn,id\n#"\n"c",bob\n',
        {"multiLine": "true", "comment": "#"},
    ),
    "UTF-16": (
        "\ufeffn,id\n1,ann\n2,bob\n".encode("utf-16-le"),
        "\ufeffn,id\n2,bob\n".encode("utf-16-le"),
        {"multiLine": "true", "encoding": "UTF-16"},
    ),
}


@pytest.mark.parametrize("case", CSV)
def test_csv(raw: LocalFiles, case: str) -> None:
    before, after, options = CSV[case]
    found, rewritten = erase_ann(raw, before, text_feed("csv", **options))
    assert found == after
    assert rewritten.removed == 1


def test_a_compressed_csv_file(raw: LocalFiles) -> None:
    found, _ = erase_ann(raw, gzip.compress(CSV["plain"][0]), text_feed("csv"), "a.csv.gz")
    assert gzip.decompress(found) == CSV["plain"][1]


def test_columns_without_a_header_have_sparks_names(raw: LocalFiles) -> None:
    seen: list[dict[str, Any]] = []
    look = lambda row: bool(seen.append(dict(row)))  # noqa: E731
    erase_ann(raw, b"1,x\n2,\n", text_feed("csv", header="false", nullValue="x"), is_gone=look)
    assert seen == [{"_c0": "1", "_c1": None}, {"_c0": "2", "_c1": ""}]
    seen.clear()
    erase_ann(raw, b"a,,A,b\n1,2,3\n", text_feed("csv"), is_gone=look)
    assert seen == [{"a0": "1", "_c1": "2", "a2": "3", "b": None}]


BAD_CSV = {
    "a quote that does not end": (
        b'id\nbob\n"secret\n',
        {},
        ":3: the file cannot be rewritten: a quoted value does not end",
    ),
    "not in a line": (b'id,n\nbob,"a\nsecret"\n', {}, ":2: the file cannot be rewritten: a quoted value does not end"),
    "a key that is not certain": (
        b'id\n"a""secret"\n',
        {},
        ":2: the file cannot be rewritten: the quotes in the column 'id' are not escaped",
    ),
    "the same in a document": (b'id\nbob\n"a""secret"\n', {"multiLine": "true"}, ":3: "),
    "a header that is not certain": (
        b'"i""secret"\nbob\n',
        {},
        ":1: the file cannot be rewritten: the quotes in the header are not escaped",
    ),
    "line ends that differ": (b"id\r\nbob\nsecret\r\n", {"multiLine": "true"}, "different line ends"),
    "old line ends": (b"id\rbob\r", {"multiLine": "true"}, "lines end with CR"),
    "an escape after a quote": (b'id,n\n"bob"\\"secret",1\n', {}, "a quote is followed by the escape character"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_a_csv_record_that_cannot_be_read_is_refused_with_its_line(raw: LocalFiles, case: str) -> None:
    content, options, message = BAD_CSV[case]
    assert message in refuse_text(raw, content, text_feed("csv", **options))


@pytest.mark.parametrize(
    ("format_", "options"),
    [
        ("csv", {"sep": "||"}),
        ("csv", {"unescapedQuoteHandling": "RAISE_ERROR"}),
        ("csv", {"charToEscapeQuoteEscaping": "x"}),
        ("csv", {"lineSep": "|"}),
        ("csv", {"emptyValue": "x"}),
        ("csv", {"encoding": "UTF-16LE"}),
        ("json", {"encoding": "UTF-16", "lineSep": "\n"}),
        ("json", {"encoding": "no such"}),
        ("json", {"sep": ","}),
        ("json", {"somethingNew": "1"}),
        ("orc", {}),
    ],
)
def test_an_option_that_is_not_understood_is_refused(format_: str, options: dict[str, str]) -> None:
    with pytest.raises(RewriteError, match="cannot be rewritten"):
        text_feed(format_, **options)


def test_csv_has_no_envelope() -> None:
    with pytest.raises(RewriteError, match="envelope"):
        text_feed("csv", envelope="debezium")


def test_names_of_a_schema() -> None:
    schema = "id bigint, `a b` struct<x: int, y:decimal(3,2)>, `c``d` map<string,int> comment 'x, y', e: int NOT NULL"
    assert names_of(schema) == ("id", "a b", "c`d", "e")
