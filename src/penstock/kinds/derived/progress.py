"""The progress of a derived table: the inputs, the definition and the settings that it was computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.model.progress import InputMark, check_type


@dataclass(frozen=True, slots=True)
class DerivedProgress:
    """The payload of a derived table's progress manifest."""

    inputs: Mapping[str, InputMark] = field(default_factory=dict)
    definition: str | None = None
    settings: str | None = None


class DerivedCodec:
    """Writes and reads the payload."""

    kind = "derived"

    def encode(self, payload: DerivedProgress) -> dict[str, Any]:
        inputs = {n: {"version": m.version, "at": m.at, "columns": m.columns} for n, m in payload.inputs.items()}
        return {"inputs": inputs, "definition": payload.definition, "settings": payload.settings}

    def decode(self, value: Mapping[str, Any]) -> DerivedProgress:
        inputs = {
            str(name): InputMark(int(mark["version"]), int(mark["at"]), str(mark["columns"]))
            for name, mark in value["inputs"].items()
        }
        return DerivedProgress(
            inputs, check_type(value["definition"], str, None), check_type(value["settings"], str, None)
        )

    def fold(self, older: DerivedProgress, newer: DerivedProgress) -> DerivedProgress:
        del older  # a table is computed as a whole
        return newer


CODEC = DerivedCodec()
