"""The progress of a load: how its source was read last, and how far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.model.loads import Strategy
from penstock.model.progress import check_type


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """A column of the source, as it was when it was read last."""

    name: str
    native: str
    type: str


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The payload of a load's progress manifest. Holds no address, user or password."""

    strategy: Strategy
    source: str = ""
    """Which table it is, as it was declared; without how it is reached."""
    settings: str = ""
    """A fingerprint of what shapes the rows: columns, where, keys, cursor, SCD type."""
    columns: tuple[KnownColumn, ...] = ()
    watermark: str | None = None
    """Rows with a cursor below this are in the table, as canonical text."""
    is_bounded: bool = False
    """Whether the source promised that no row below the watermark will be added; otherwise `lookback` decides."""
    token: str | None = None
    """What the source wants to be told next time."""
    greatest: str | None = None
    """No row from the watermark on that was read has a greater cursor; None when that is not known."""
    moment: str | None = None
    """When the source was read last, by its own clock."""
    checked_at: str | None = None
    """When deletes were checked last, by the source's clock."""
    stamp: str | None = None
    """The source's stamp from before it was read."""
    mark: str | None = None
    """What the source said of the rows that the next load begins with, as this one read them; None when it said nothing."""
    identity: str | None = None
    """Which of several tables with this name was read; None where the source cannot say that."""
    checksum: str | None = None
    """Of all rows, whatever their order; where the table is written as a whole."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """What was really read, in fingerprints (`origins.to_origin`); empty where the source, or an older Penstock, did not say."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What the advisor recorded when it chose the strategy."""


class LoadCodec:
    """Writes and reads the payload; each manifest states everything."""

    kind = "load"

    def encode(self, payload: LoadProgress) -> dict[str, Any]:
        found = {name: getattr(payload, name) for name in LoadProgress.__slots__}
        columns = [asdict(column) for column in payload.columns]
        return {
            **found,
            "strategy": payload.strategy.value,
            "columns": columns,
            "origin": dict(payload.origin),
            "evidence": dict(payload.evidence),
        }

    def decode(self, value: Mapping[str, Any]) -> LoadProgress:
        texts = {name: check_type(value.get(name), str, None) for name in _TEXTS}
        columns = [
            KnownColumn(**{name: check_type(c[name], str) for name in KnownColumn.__slots__}) for c in value["columns"]
        ]
        return LoadProgress(
            strategy=Strategy(value["strategy"]),
            source=check_type(value["source"], str),
            settings=check_type(value["settings"], str),
            columns=tuple(columns),
            is_bounded=check_type(value["is_bounded"], bool),
            origin={name: check_type(each, str) for name, each in value.get("origin", {}).items()},
            evidence=dict(value["evidence"]),
            **texts,
        )

    def fold(self, older: LoadProgress, newer: LoadProgress) -> LoadProgress:
        del older
        return newer


_TEXTS = ("watermark", "token", "greatest", "moment", "checked_at", "stamp", "mark", "identity", "checksum")
CODEC = LoadCodec()
