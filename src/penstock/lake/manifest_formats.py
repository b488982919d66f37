"""Progress manifests of earlier versions, in the current format. The one place that infers the kind of an old manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from penstock.model.changes import RESERVED

FORMAT = 5
_SEALED = 5
"""The first format with a checksum."""
_CHECKSUM = "checksum"
_FAR_DATES = 5
"""The first format that knows whether dates are beyond what a timestamp can be."""
_BY_KIND = 4
"""The first format that names the kind."""
_STAGING, _DERIVED, _CDC = "staging", "derived", "cdc"


def to_current_format(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A progress manifest of any format, in the current one.

    Formats 1 to 3 had the fields of every kind side by side, and did not name the kind.
    """
    if value["format"] >= _FAR_DATES:
        return value
    if value["format"] >= _BY_KIND:
        return {**value, "payload": _with_unknown_dates(value["kind"], value["payload"])}
    kind = _infer_kind(value)
    return {
        "format": FORMAT,
        "dataset": value["dataset"],
        "number": value["number"],
        "parent": value["parent"],
        "kind": kind,
        "entry": value["kind"],
        "complete": value["complete"],
        "schema": value["schema"],
        "hidden": [RESERVED] if kind == _CDC else [],
        "build_request_id": value["build_request_id"],
        "payload": _with_unknown_dates(kind, _payload(kind, value)),
    }


def seal(value: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with a checksum over everything else in it."""
    return {**value, _CHECKSUM: _hash(value)}


def is_intact(value: Mapping[str, Any]) -> bool:
    """Whether a manifest is as it was written; formats 1 to 4 have nothing to tell by."""
    return value["format"] < _SEALED or value.get(_CHECKSUM) == _hash(value)


def _hash(value: Mapping[str, Any]) -> str:
    """By content, not by bytes: spaces and the order of fields mean nothing."""
    content = {key: field for key, field in value.items() if key != _CHECKSUM}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _infer_kind(value: Mapping[str, Any]) -> str:
    if value.get("position") or value.get("segments"):
        return _CDC
    return _DERIVED if value["definition"] is not None else _STAGING


def _payload(kind: str, value: Mapping[str, Any]) -> dict[str, Any]:
    if kind == _CDC:
        position = value["position"]
        identity = {"keys": position["keys"], "sequence": position["sequence"]} if "keys" in position else None
        return {
            "files": value["files"],
            "segments": value["segments"],
            "identity": identity,
            "batch": position.get("batch"),
            "sources": position.get("source", {}),
        }
    if kind == _DERIVED:
        inputs = {name: _mark(mark) for name, mark in value["inputs"].items()}
        return {"inputs": inputs, "definition": value["definition"], "settings": value["settings"]}
    seen = value["seen"] if "seen" in value else _seen_as(value["schema"] or ())
    return {"files": value["files"], "seen": seen, "settings": value["settings"]}


def _with_unknown_dates(kind: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Dates may be far beyond any timestamp: if one becomes a timestamp, the table is rebuilt, and its files are asked."""
    if kind != _STAGING:
        return payload
    seen = [{**c, "large": c["large"] or any("date" in type_ for type_ in c["types"])} for c in payload["seen"]]
    return {**payload, "seen": seen}


def _mark(value: Any) -> Any:
    """Format 1 stored versions only: such an input counts as changed."""
    return {"version": -1, "at": 0, "columns": ""} if isinstance(value, int) else value


def _seen_as(columns: Any) -> list[dict[str, Any]]:
    """What format 1 did not store: all files had the types of the table then, and its bigint values may have any size."""
    return [
        {"name": c["name"], "types": [c["type"]], "nullable": c["nullable"], "large": c["type"] == "bigint"}
        for c in columns
    ]
