"""Commits of a Delta log as files: their names, what they say, and small ones with the events inside."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from penstock.eventlog.codec import decoder, from_json, to_json, to_text
from penstock.eventlog.encoding import Encoded, encode_stored

VERSION_PROPERTY = "penstock.schemaVersion"
INLINE = "penstockEvents"
"""The field of a small commit that contains its events as text."""
REMOVED = "penstockRemoved"
"""The field of a commit that only removed events: their positions as text."""
INDEX_BITS = 20
"""How many bits of a position are the place within a commit; the rest is the commit's version."""
_INLINE_EVENTS = 50
_INLINE_CHARACTERS = 50_000
_REMOVED_CHARACTERS = 2_000_000

Found = tuple[int, Encoded, int | None]
"""An event with its position and when it was written."""


@dataclass(slots=True)
class Commit:
    """What one commit did to the events."""

    inline: list[Found] | None = None
    adds: list[dict[str, Any]] = field(default_factory=list)
    removed: list[int] | None = None
    """The positions of removed events, when the commit says so."""
    has_removed: bool = False
    shape: tuple[int, list[str]] | None = None
    """The schema version and the columns, when the commit sets them."""


def read_commit(content: bytes, version: int) -> Commit:
    """Take a commit apart; what only moves rows between files is left out."""
    commit = Commit()
    for action in map(json.loads, content.splitlines()):
        if "metaData" in action:
            fields = json.loads(action["metaData"]["schemaString"])["fields"]
            commit.shape = to_version(action["metaData"]["configuration"]), [each["name"] for each in fields]
        elif "commitInfo" in action:
            said = action["commitInfo"]
            commit.inline = from_inline(said[INLINE], version) if INLINE in said else None
            commit.removed = from_ranges(said[REMOVED]) if REMOVED in said else None
        elif "remove" in action and action["remove"].get("dataChange"):
            commit.has_removed = True
        elif "add" in action and action["add"].get("dataChange"):
            commit.adds.append(action["add"])
    return commit


def removed_paths(content: bytes) -> set[str]:
    """The data files that a commit took out of the table."""
    return {action["remove"]["path"] for action in map(json.loads, content.splitlines()) if "remove" in action}


def to_version(configuration: dict[str, Any]) -> int:
    """The schema version that a table says it has."""
    return int(configuration.get(VERSION_PROPERTY) or 1)


def to_inline(items: Sequence[Encoded], version: int, recorded_at: int) -> str | None:
    """The events of a small commit as text; None when there are too many."""
    if len(items) > _INLINE_EVENTS:
        return None
    text = to_text({"version": version, "recorded_at": recorded_at, "events": [to_json(item.event) for item in items]})
    return text if len(text) <= _INLINE_CHARACTERS else None


def from_inline(text: str, version: int) -> list[Found] | None:
    """Read the events of a small commit back; None when the text cannot be read: then its data files must be."""
    try:
        value = decoder.decode(text)
        events = [encode_stored(from_json(event)) for event in value["events"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    first = version << INDEX_BITS
    return [(first + n, item, value["recorded_at"]) for n, item in enumerate(events)]


def to_ranges(positions: Sequence[int]) -> str | None:
    """Positions as text, neighbours together; None when that would be too long for a commit."""
    runs = groupby(enumerate(sorted(positions)), key=lambda item: item[1] - item[0])
    ranges = [(run[0][1], len(run)) for run in (list(group) for _, group in runs)]
    text = to_text(ranges)
    return text if len(text) <= _REMOVED_CHARACTERS else None


def from_ranges(text: str) -> list[int]:
    """Read positions back."""
    return [position for first, count in json.loads(text) for position in range(first, first + count)]


def commit_name(version: int) -> str:
    """The file of a commit, below the table's folder."""
    return f"_delta_log/{version:020d}.json"


def commit_tag(commit: bytes) -> str:
    """A hash that tells whether a commit is still the same."""
    return hashlib.blake2b(commit, digest_size=12).hexdigest()
