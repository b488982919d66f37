"""Text files of people, and what is left of them without Ann."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import RewriteError
from penstock.maintenance.files.envelopes import Row
from penstock.maintenance.files.replacing import replace
from penstock.maintenance.files.text import rewrite_text
from penstock.maintenance.files.text_format import TextFormat
from penstock.maintenance.files.values import Rewritten
from penstock.model.changes import FeedFiles
from penstock.storage.local import LocalFiles

GONE = "ann"


def is_ann(row: Row) -> bool:
    return row.get("id") == GONE


def text_feed(
    format_: str = "json", envelope: str | None = None, schema: str | None = None, **options: str
) -> TextFormat:
    return TextFormat.of_feed(FeedFiles("feeds/people", format_, envelope, schema, tuple(options.items())))


def erase_ann(
    raw: LocalFiles,
    content: bytes,
    format_: TextFormat,
    name: str = "a.txt",
    is_gone: Callable[[Row], bool] = is_ann,
) -> tuple[bytes, Rewritten]:
    (raw.root / name).write_bytes(content)
    rewritten = rewrite_text(raw, name, format_, is_gone)
    assert (raw.root / name).read_bytes() == content, "nothing is replaced yet"
    replace(raw, rewritten)
    assert [each.name for each in raw.root.iterdir()] == [name]
    return (raw.root / name).read_bytes(), rewritten


def refuse_text(raw: LocalFiles, content: bytes, format_: TextFormat, name: str = "a.txt") -> str:
    (raw.root / name).write_bytes(content)
    with pytest.raises(RewriteError) as caught:
        rewrite_text(raw, name, format_, is_ann)
    assert (raw.root / name).read_bytes() == content
    assert [each.name for each in raw.root.iterdir()] == [name], "nothing is left aside"
    assert "secret" not in f"{caught.value} {caught.value.hint}"
    return str(caught.value)
