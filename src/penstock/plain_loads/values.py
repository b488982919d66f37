"""What plain loads give back, and what they keep in the progress manifests of their tables. No JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.model.progress import check_type


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What `full_refresh_with_swap` did."""

    rows: int
    """The rows of the table now."""
    previous_rows: int | None
    """The rows that the load before wrote; None for a new table."""
    version: int | None
    """The version of the table with these rows."""
    changed: bool
    """False when the table had the same rows already: then nothing was committed."""


@dataclass(frozen=True, slots=True)
class IncrementResult:
    """What `incremental_by_timestamp` did."""

    rows_read: int
    """The rows in the window: at or after the watermark minus `lookback`."""
    rows_added: int
    rows_updated: int
    rows_skipped: int
    """Rows that were left out because their cursor is NULL, with `null_cursor="skip"`."""
    watermark: Any
    """The greatest cursor that is loaded: what the next load starts from. None as long as nothing is."""
    version: int | None
    """The version of the table that this load committed; None when there was nothing new."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """How many rows there are, and what their hashes add up to, in any order."""

    rows: int
    total: str
    mixed: int

    def to_json(self) -> list[Any]:
        return [self.rows, self.total, self.mixed]

    @staticmethod
    def from_json(value: list[Any]) -> Checksum:
        rows, total, mixed = value
        return Checksum(check_type(rows, int), check_type(total, str), check_type(mixed, int))


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The progress of a table that is refreshed as a whole."""

    content: Checksum
    columns: tuple[tuple[str, str], ...]
    """Names and types, in order: the same rows under other names are other rows."""


class RefreshCodec:
    """Writes and reads the progress of a refreshed table."""

    kind = "plain_refresh"

    def encode(self, payload: Refreshed) -> dict[str, Any]:
        return {"content": payload.content.to_json(), "columns": [list(pair) for pair in payload.columns]}

    def decode(self, value: Mapping[str, Any]) -> Refreshed:
        columns = tuple((check_type(name, str), check_type(type_, str)) for name, type_ in value["columns"])
        return Refreshed(Checksum.from_json(value["content"]), columns)

    def fold(self, older: Refreshed, newer: Refreshed) -> Refreshed:
        del older  # every load states the whole table
        return newer


@dataclass(frozen=True, slots=True)
class Loaded:
    """The progress of a table that is loaded by timestamp."""

    cursor: str
    cursor_type: str
    keys: tuple[str, ...]
    watermark: str | None
    """The exact text of the cursor, as `cursors` writes it."""


class TimestampCodec:
    """Writes and reads the progress of a table that is loaded by timestamp."""

    kind = "plain_timestamp"

    def encode(self, payload: Loaded) -> dict[str, Any]:
        return {
            "cursor": payload.cursor,
            "cursor_type": payload.cursor_type,
            "keys": list(payload.keys),
            "watermark": payload.watermark,
        }

    def decode(self, value: Mapping[str, Any]) -> Loaded:
        return Loaded(
            check_type(value["cursor"], str),
            check_type(value["cursor_type"], str),
            tuple(check_type(key, str) for key in value["keys"]),
            check_type(value["watermark"], str, None),
        )

    def fold(self, older: Loaded, newer: Loaded) -> Loaded:
        del older  # every load states its watermark
        return newer


REFRESH = RefreshCodec()
TIMESTAMP = TimestampCodec()
