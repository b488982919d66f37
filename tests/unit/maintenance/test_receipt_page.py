"""The page of a receipt: everything is on it, nothing is taken from elsewhere, and no text becomes markup."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.receipts import SECRETS, make_receipt

from penstock.maintenance.receipts import FOLDER, sign, write_receipt
from penstock.model.receipts import Receipt
from penstock.storage.local import LocalFiles
from penstock.tombstones.secrets import to_secrets

OURS = to_secrets(SECRETS)
VOID = {"meta", "wbr"}


class Page(HTMLParser):
    """The text and the tags of a page; fails when a tag is not closed."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag in {"td", "th", "dd", "dt", "li"}:
            self.texts.append("\n")

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def all(self) -> str:
        return self.text + "\n".join(value or "" for _, value in self.attributes)


def page_of(receipt: Receipt, folder: Path) -> tuple[Page, str]:
    write_receipt(LocalFiles(folder), receipt, OURS)
    content = (folder / FOLDER / f"{receipt.id}.html").read_text(encoding="utf-8")
    return Page(content), content


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    else:
        yield value


def test_everything_of_the_receipt_is_on_the_page(tmp_path: Path) -> None:
    receipt = make_receipt()
    page, _ = page_of(receipt, tmp_path)
    signed = sign(receipt, OURS)
    numbers = re.sub(r"(?<=\d),(?=\d{3})", "", page.text)
    document = json.loads(signed)
    for leaf in leaves({"receipt": document["receipt"], "signature": document["signature"]}):
        if isinstance(leaf, str):
            assert leaf in page.all, leaf
        elif leaf is not None and not isinstance(leaf, bool):
            assert re.search(rf"(?<![\d.]){re.escape(str(leaf))}(?![\d.]*\d)", numbers), leaf
    assert hashlib.sha256(signed).hexdigest() in page.text
    assert "no such place" in page.text


def test_the_page_has_its_sections(tmp_path: Path) -> None:
    _, content = page_of(make_receipt(), tmp_path)
    assert re.findall(r"<h2>(.*?)</h2>", content) == [
        "What was asked",
        "What was removed",
        "How it was verified",
        "What was searched, and how",
        "What erasure cannot reach",
        "How to verify this receipt",
    ]
    for word in ("Backups", "Older versions", "Free blocks", "outside the project", "write-ahead log"):
        assert word in content


def test_nothing_comes_from_elsewhere(tmp_path: Path) -> None:
    page, content = page_of(make_receipt(), tmp_path)
    assert not {"script", "link", "img", "iframe", "object", "base", "a"} & page.tags
    assert not re.search(r"url\(|@import|https?:|src=|href=|\son\w+=", content)


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "</style><b>", '"><img src=x>', "&amp;", "a'b", "\u202e<i>"]
)
def test_no_text_becomes_markup(tmp_path: Path, text: str) -> None:
    receipt = make_receipt(actor=text)
    note = replace(receipt.scan.undecoded[0], place=text, file=text, reason=text)
    receipt = replace(
        receipt,
        project=text,
        subject=text,
        tables=(replace(receipt.tables[0], table=text),),
        sources=(replace(receipt.sources[0], place=text),),
        scan=replace(receipt.scan, undecoded=(note,)),
        tool_version=text,
        unreachable=(text,),
    )
    page, _ = page_of(receipt, tmp_path)
    assert not {"script", "img", "i"} & page.tags
    assert page.text.count(text) >= 9


def test_an_erasure_of_little_reads_well(tmp_path: Path) -> None:
    receipt = make_receipt()
    few = replace(
        receipt,
        subject="",
        keys=receipt.keys[:1],
        tables=(replace(receipt.tables[2], rows_removed=1),),
        sources=(),
        events_redacted=1,
        scan=replace(receipt.scan, undecoded=()),
    )
    page, _ = page_of(few, tmp_path)
    for words in (
        "1 key erased",
        "1 row removed",
        "1 event was redacted",
        "Without a checksum",
        "None.",
        "Keys of tables",
    ):
        assert words in page.text
    assert "Both are equal" not in page.text
