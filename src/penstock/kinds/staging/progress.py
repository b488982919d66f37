"""The progress of a staging table: the raw files in it, what their footers said, and the declaration that shaped it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.model.progress import ConsumedFile, check_type
from penstock.model.schema import SeenColumn, seen_from_json, seen_to_json


@dataclass(frozen=True, slots=True)
class StagingProgress:
    """The payload of a staging table's progress manifest."""

    files: Mapping[str, ConsumedFile] = field(default_factory=dict)
    """By path."""
    seen: tuple[SeenColumn, ...] = ()
    settings: str | None = None
    """A fingerprint of the contract."""


class StagingCodec:
    """Writes and reads the payload."""

    kind = "staging"

    def encode(self, payload: StagingProgress) -> dict[str, Any]:
        return {
            "files": [entry.to_json() for entry in payload.files.values()],
            "seen": seen_to_json(payload.seen),
            "settings": payload.settings,
        }

    def decode(self, value: Mapping[str, Any]) -> StagingProgress:
        files = [ConsumedFile.from_json(entry) for entry in check_type(value["files"], list)]
        seen = seen_from_json(check_type(value["seen"], list))
        settings = check_type(value["settings"], str, None)
        return StagingProgress({entry.file.path: entry for entry in files}, seen, settings)

    def fold(self, older: StagingProgress, newer: StagingProgress) -> StagingProgress:
        return StagingProgress({**older.files, **newer.files}, newer.seen, newer.settings)


CODEC = StagingCodec()
