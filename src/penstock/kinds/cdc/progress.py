"""The progress of a streaming table: change files read, segments of its auxiliary table, and how far its sources were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime
from typing import Any

from penstock.model.changes import SnapshotVersion
from penstock.model.progress import ConsumedFile, InputMark, NewerPayloadError, TableState, check_type

SEGMENTS = "auxiliary"
"""The folder of the auxiliary table, beside the progress manifests."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a target's auxiliary table: change events that one committed load wrote, in one file or folder."""

    name: str
    rows: int
    size: int
    truncates: int = 0
    forgets: bool = True
    """Whether the events that it gives up are given up. Not when nobody knows whether its load was committed."""

    def to_json(self) -> dict[str, Any]:
        """What is said of almost every segment is left out."""
        return {name: value for name, value in asdict(self).items() if name != "forgets" or not value}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Segment:
        """Read what `to_json` wrote. Something else that is said of a segment may change what its events mean."""
        if more := value.keys() - {each.name for each in fields(Segment)}:
            raise NewerPayloadError(f"segments have {', '.join(sorted(more))}")
        return Segment(**value)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a flow cannot change once its target exists."""

    keys: tuple[str, ...]
    sequence: str
    """The type of the sequence."""

    def to_json(self) -> dict[str, Any]:
        return {"keys": list(self.keys), "sequence": self.sequence}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Identity:
        return Identity(tuple(map(str, value["keys"])), str(value["sequence"]))


@dataclass(frozen=True, slots=True)
class CdcProgress:
    """The payload of a streaming table's progress manifest."""

    files: Mapping[str, ConsumedFile] = field(default_factory=dict)
    """Change files, by path."""
    segments: tuple[Segment, ...] = ()
    """All segments that count once this load is committed."""
    identity: Identity | None = None
    batch: tuple[Any, Any] | None = None
    """The id of the last batch that had one, and a digest of its content."""
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How far datasets and snapshots were read, by the flow's name."""

    def is_as_far_as(self, other: CdcProgress) -> bool:
        """Whether both were read equally far; files and segments may differ."""
        return (self.identity, self.batch, self.sources) == (other.identity, other.batch, other.sources)


class CdcCodec:
    """Writes and reads the payload."""

    kind = "cdc"

    def encode(self, payload: CdcProgress) -> dict[str, Any]:
        return {
            "files": [entry.to_json() for entry in payload.files.values()],
            "segments": [segment.to_json() for segment in payload.segments],
            "identity": payload.identity.to_json() if payload.identity else None,
            "batch": list(payload.batch) if payload.batch else None,
            "sources": {flow: dict(mark) for flow, mark in payload.sources.items()},
        }

    def decode(self, value: Mapping[str, Any]) -> CdcProgress:
        files = [ConsumedFile.from_json(entry) for entry in check_type(value["files"], list)]
        batch = value["batch"]
        return CdcProgress(
            {entry.file.path: entry for entry in files},
            tuple(Segment.from_json(segment) for segment in check_type(value["segments"], list)),
            Identity.from_json(value["identity"]) if value["identity"] is not None else None,
            (batch[0], batch[1]) if batch else None,
            {str(flow): dict(mark) for flow, mark in value["sources"].items()},
        )

    def fold(self, older: CdcProgress, newer: CdcProgress) -> CdcProgress:
        files = {**older.files, **newer.files}
        return CdcProgress(files, newer.segments, newer.identity, newer.batch, newer.sources)


CODEC = CdcCodec()


def to_mark(state: TableState[Any]) -> dict[str, int]:
    """How far a dataset was read, as the progress stores it."""
    return {"version": state.data_version or 0, "at": state.data_at or 0}


def known_mark(progress: CdcProgress | None, flow: str) -> InputMark | None:
    """How far a flow's dataset was read before; None when that is unknown."""
    mark = progress.sources.get(flow) if progress else None
    return InputMark(int(mark["version"]), int(mark["at"])) if mark and "version" in mark else None


def to_snapshot_mark(version: SnapshotVersion) -> dict[str, Any]:
    """The version of a snapshot, as the progress stores it."""
    return {"snapshot": version.isoformat() if isinstance(version, date) else version, "of": type(version).__name__}


def known_snapshot(progress: CdcProgress | None, flow: str) -> SnapshotVersion | None:
    """The version of the last snapshot that was applied; None when there was none."""
    mark = progress.sources.get(flow, {}) if progress else {}
    read: dict[str, Any] = {"date": date.fromisoformat, "datetime": datetime.fromisoformat}
    return read.get(mark.get("of", ""), lambda version: version)(mark["snapshot"]) if "snapshot" in mark else None
