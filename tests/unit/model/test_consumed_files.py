"""A consumed file that Penstock itself replaces is the same file before, meanwhile and after; any other content is not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.model.progress import ConsumedFile, NewContent, RawFile

OLD, NEW, OTHER = (RawFile("a", 10, 1, "e1"), RawFile("a", 8, 2, "e2"), RawFile("a", 8, 3, "e3"))
PENDING = ConsumedFile(OLD, 5, "old", NewContent(8, "new", 4))


def no_hash() -> str:
    raise AssertionError("nothing to hash")


def test_both_contents_are_recognized_while_a_file_is_replaced() -> None:
    assert PENDING.recognize(OLD, no_hash) is PENDING
    assert PENDING.recognize(replace(OLD, modified_ns=9), lambda: "old") == replace(
        PENDING, file=replace(OLD, modified_ns=9)
    )
    assert PENDING.recognize(NEW, lambda: "new") == ConsumedFile(NEW, 4, "new")
    assert PENDING.recognize(OTHER, lambda: "other") is None
    assert PENDING.recognize(replace(OTHER, size=9), no_hash) is None


def test_what_was_not_hashed_or_counted_before_is_not_after() -> None:
    """Object stores have entity tags instead of hashes; change files are not counted."""
    pending = ConsumedFile(OLD, 0, None, NewContent(8, "new", 4))
    assert pending.recognize(OLD, no_hash) is pending
    assert pending.recognize(replace(OLD, etag="e9"), no_hash) is None, "without a hash another tag is another content"
    assert pending.recognize(NEW, lambda: "new") == ConsumedFile(NEW, 0, None)
    assert pending.recognize(NEW, lambda: "other") is None


def test_two_contents_of_one_size() -> None:
    pending = replace(PENDING, replacement=NewContent(10, "new", 4))
    moved = replace(OLD, modified_ns=2)
    assert pending.recognize(moved, lambda: "old") == replace(pending, file=moved)
    assert pending.recognize(moved, lambda: "new") == ConsumedFile(moved, 4, "new")
    assert pending.recognize(moved, lambda: "other") is None


def test_entries_survive_a_manifest() -> None:
    for entry in (PENDING, ConsumedFile(OLD, 5, "old"), ConsumedFile(NEW, 0)):
        assert ConsumedFile.from_json(json.loads(json.dumps(entry.to_json()))) == entry
    assert "replacement" not in ConsumedFile(OLD, 5).to_json(), "as older versions write it"
    with pytest.raises(TypeError):
        ConsumedFile.from_json({**PENDING.to_json(), "replacement": {"size": "8", "hash": "new", "rows": 4}})
