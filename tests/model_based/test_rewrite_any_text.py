"""Any text file of records, in any form, without any of them: what is left are the other records, byte for byte."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.maintenance.files.replacing import replace
from penstock.maintenance.files.text import rewrite_text
from penstock.maintenance.files.text_format import Dialect, TextFormat
from penstock.storage.local import LocalFiles

IDS = st.sampled_from(["ann", "bob", 'cy, "x"', "dé\n", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "[", "x,"]), inner, max_size=2),
    max_leaves=4,
)


def rewritten(folder: Any, name: str, content: bytes, format_: TextFormat, gone: set[str]) -> tuple[bytes, int]:
    (folder / name).write_bytes(content)
    result = rewrite_text(LocalFiles(folder), name, format_, lambda row: row.get("id") in gone)
    replace(LocalFiles(folder), result)
    return (folder / name).read_bytes(), result.removed


@st.composite
def records(draw: Any) -> list[tuple[str, bytes]]:
    """Records with their ids, each written in its own way."""
    found = []
    for id_ in draw(st.lists(IDS, max_size=8)):
        record = {"id": id_, "other": draw(VALUES)}
        text = json.dumps(
            record,
            ensure_ascii=draw(st.booleans()),
            separators=draw(st.sampled_from([(",", ":"), (" , ", " : ")])),
            sort_keys=draw(st.booleans()),
        )
        pad = draw(st.sampled_from(["", " ", "\t"]))
        found.append((id_, f"{pad}{text}{pad}".encode()))
    return found


@settings(max_examples=150)
@given(records(), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.sets(IDS), st.booleans(), st.booleans())
def test_lines_of_json(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, bytes]],
    end: bytes,
    gone: set[str],
    has_mark: bool,
    is_packed: bool,
) -> None:
    mark = b"\xef\xbb\xbf" if has_mark else b""
    before = mark + b"".join(line + end for _, line in rows)
    after = mark + b"".join(line + end for id_, line in rows if id_ not in gone)
    name, content = ("a.json.gz", gzip.compress(before)) if is_packed else ("a.json", before)
    found, removed = rewritten(tmp_path_factory.mktemp("feed"), name, content, TextFormat(), gone)
    assert (gzip.decompress(found) if is_packed else found) == after
    assert removed == sum(id_ in gone for id_, _ in rows)


@settings(max_examples=150)
@given(records(), st.sets(IDS), st.sampled_from(["utf-8", "utf-16-le", "utf-32-be"]), st.sampled_from([",", " ,\r\n"]))
def test_documents_of_json(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, bytes]], gone: set[str], encoding: str, comma: str
) -> None:
    format_ = TextFormat(is_document=True, encoding=encoding)
    document = f"\n[ {comma.join(line.decode() for _, line in rows)} ]\n"
    found, _ = rewritten(tmp_path_factory.mktemp("feed"), "a.json", document.encode(encoding), format_, gone)
    left = found.decode(encoding)
    kept = [line.decode().strip() for id_, line in rows if id_ not in gone]
    assert json.loads(left) == [json.loads(line) for line in kept]
    for line in kept:
        assert line in left


@settings(max_examples=200)
@given(
    st.lists(st.tuples(IDS, st.text(st.sampled_from('a,;"\\\n é'), max_size=6)), max_size=8),
    st.sets(IDS),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_documents_of_csv(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    gone: set[str],
    sep: str,
    end: str,
    quoting: Any,
) -> None:
    """As Python's csv module writes them, with doubled quotes and values of several lines."""

    def line(*values: str) -> bytes:
        target = io.StringIO()
        csv.writer(target, delimiter=sep, lineterminator=end, quoting=quoting).writerow(values)
        return target.getvalue().encode()

    header = line("n", "ID")
    format_ = TextFormat("csv", is_document=True, dialect=Dialect(sep=sep, escape='"', null_value="\0"))
    before = header + b"".join(line(n, id_) for id_, n in rows)
    found, removed = rewritten(tmp_path_factory.mktemp("feed"), "a.csv", before, format_, gone)
    assert found == header + b"".join(line(n, id_) for id_, n in rows if id_ not in gone)
    assert removed == sum(id_ in gone for id_, _ in rows)
