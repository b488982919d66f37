"""The progress of a derived table: the inputs, the definition and the settings that it was computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.model.progress import InputMark, check_type


@dataclass(frozen=True, slots=True)
class Description:
    """What is said about a table and can be changed without its rows: the comment, and properties that Delta ignores."""

    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"comment": self.comment, "properties": dict(self.properties)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Description:
        properties = {str(key): str(text) for key, text in value["properties"].items()}
        return Description(check_type(value["comment"], str, None), properties)


@dataclass(frozen=True, slots=True)
class DerivedProgress:
    """The payload of a derived table's progress manifest."""

    inputs: Mapping[str, InputMark] = field(default_factory=dict)
    definition: str | None = None
    settings: str | None = None
    description: Description | None = None
    """None in manifests of earlier versions, whose settings cover it."""


class DerivedCodec:
    """Writes and reads the payload."""

    kind = "derived"

    def encode(self, payload: DerivedProgress) -> dict[str, Any]:
        inputs = {n: {"version": m.version, "at": m.at, "columns": m.columns} for n, m in payload.inputs.items()}
        described = {"description": payload.description.to_json()} if payload.description is not None else {}
        return {"inputs": inputs, "definition": payload.definition, "settings": payload.settings, **described}

    def decode(self, value: Mapping[str, Any]) -> DerivedProgress:
        inputs = {
            str(name): InputMark(int(mark["version"]), int(mark["at"]), str(mark["columns"]))
            for name, mark in value["inputs"].items()
        }
        described = Description.from_json(value["description"]) if "description" in value else None
        definition, settings = check_type(value["definition"], str, None), check_type(value["settings"], str, None)
        return DerivedProgress(inputs, definition, settings, described)

    def fold(self, older: DerivedProgress, newer: DerivedProgress) -> DerivedProgress:
        del older  # a table is computed as a whole
        return newer


CODEC = DerivedCodec()
