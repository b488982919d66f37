"""Commits of a Delta log as files: their names, positions of their events, and small ones with the events inside."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from penstock.eventlog.codec import from_json, to_json, to_text
from penstock.eventlog.encoding import Encoded, encode_stored

VERSION_PROPERTY = "penstock.schemaVersion"
INLINE = "penstockEvents"
"""The field of a small commit that contains its events as text."""
INDEX_BITS = 20
"""How many bits of a position are the place within a commit; the rest is the commit's version."""
_INLINE_EVENTS = 50
_INLINE_CHARACTERS = 50_000


def to_inline(items: Sequence[Encoded], version: int, recorded_at: int) -> str | None:
    """The events of a small commit as text; None when there are too many."""
    if len(items) > _INLINE_EVENTS:
        return None
    text = to_text({"version": version, "recorded_at": recorded_at, "events": [to_json(item.event) for item in items]})
    return text if len(text) <= _INLINE_CHARACTERS else None


def from_inline(text: str, version: int) -> list[tuple[int, Encoded, int | None]]:
    """Read the events of a small commit back."""
    value = json.loads(text)
    first = version << INDEX_BITS
    return [
        (first + n, encode_stored(from_json(event)), value["recorded_at"]) for n, event in enumerate(value["events"])
    ]


def commit_name(version: int) -> str:
    """The file of a commit, below the table's folder."""
    return f"_delta_log/{version:020d}.json"


def commit_tag(commit: bytes) -> str:
    """A hash that tells whether a commit is still the same."""
    return hashlib.blake2b(commit, digest_size=12).hexdigest()
