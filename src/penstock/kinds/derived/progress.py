"""The progress of a derived table: the inputs, the definition and the settings that it was computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
class PartitionProgress:
    """Which partitions of a table are up to date with the inputs, the definition and the settings of the same manifest.

    Sets of partitions are texts such as `2024-01-01..2024-03-31`.
    """

    key: str
    current: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    """Those that the commit of this manifest built."""
    listed: tuple[str, ...] = ()
    """Where only the data says which partitions there are: those that it had."""
    held: tuple[str, ...] | None = None
    """Those that the table may have rows of, up to date or not; None in manifests of earlier versions."""
    unit: str | None = None
    """`day`, `hour` or `month`, and empty for values; None in manifests of earlier versions."""

    @property
    def has_unbuilt(self) -> bool:
        """Whether the data had partitions that are not up to date."""
        return bool(set(self.listed) - set(self.current))

    def to_json(self) -> dict[str, Any]:
        listed = {"listed": list(self.listed)} if self.listed else {}
        held = {"held": list(self.held)} if self.held is not None else {}
        unit = {"unit": self.unit} if self.unit is not None else {}
        return {"key": self.key, "current": list(self.current), "added": list(self.added), **listed, **held, **unit}

    def beside(self, other: PartitionProgress) -> PartitionProgress:
        """The same with the rows that another commit may have written at the same time."""
        is_alike = (self.key, self.unit) == (other.key, other.unit)
        if not is_alike or self.held is None or other.held is None:
            return self
        return replace(self, held=tuple(dict.fromkeys((*self.held, *other.held))))

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> PartitionProgress:
        current, added = (tuple(check_type(text, str) for text in value[name]) for name in ("current", "added"))
        listed = tuple(check_type(text, str) for text in value.get("listed", ()))
        held = tuple(check_type(text, str) for text in value["held"]) if "held" in value else None
        unit = check_type(value.get("unit"), str, None)
        return PartitionProgress(check_type(value["key"], str), current, added, listed, held, unit)


@dataclass(frozen=True, slots=True)
class DerivedProgress:
    """The payload of a derived table's progress manifest."""

    inputs: Mapping[str, InputMark] = field(default_factory=dict)
    definition: str | None = None
    settings: str | None = None
    description: Description | None = None
    """None in manifests of earlier versions, whose settings cover it."""
    partitions: PartitionProgress | None = None
    """For a table whose partitions are built by themselves: those that `inputs` and the rest hold for."""
    is_accepted: bool = False
    """A person took the table as it is: its columns may be others than the definition's."""


class DerivedCodec:
    """Writes and reads the payload."""

    kind = "derived"

    def encode(self, payload: DerivedProgress) -> dict[str, Any]:
        inputs = {n: {"version": m.version, "at": m.at, "columns": m.columns} for n, m in payload.inputs.items()}
        described = {"description": payload.description.to_json()} if payload.description is not None else {}
        parts = {"partitions": payload.partitions.to_json()} if payload.partitions is not None else {}
        known = {"inputs": inputs, "definition": payload.definition, "settings": payload.settings}
        return known | described | parts | ({"accepted": True} if payload.is_accepted else {})

    def decode(self, value: Mapping[str, Any]) -> DerivedProgress:
        inputs = {
            str(name): InputMark(int(mark["version"]), int(mark["at"]), str(mark["columns"]))
            for name, mark in value["inputs"].items()
        }
        described = Description.from_json(value["description"]) if "description" in value else None
        definition, settings = check_type(value["definition"], str, None), check_type(value["settings"], str, None)
        parts = PartitionProgress.from_json(value["partitions"]) if "partitions" in value else None
        accepted = check_type(value.get("accepted", False), bool)
        return DerivedProgress(inputs, definition, settings, described, parts, accepted)

    def fold(self, older: DerivedProgress, newer: DerivedProgress) -> DerivedProgress:
        """What was built beside a commit of partitions is added to it; a table without partitions is computed as a whole.

        Both hold for the older mark of each input: a partition that has read more is at worst built once more.
        """
        ours, theirs = older.partitions, newer.partitions
        if ours is None:
            return newer
        is_same = (older.definition, older.settings) == (newer.definition, newer.settings)
        if theirs is None:
            return older
        ours = ours.beside(theirs)
        if theirs.key != ours.key or not is_same or older.inputs.keys() != newer.inputs.keys():
            return replace(older, partitions=ours)
        marks = {
            name: min(mark, newer.inputs[name], key=lambda each: each.version) for name, mark in older.inputs.items()
        }
        return replace(older, inputs=marks, partitions=replace(ours, current=(*ours.current, *theirs.added)))


CODEC = DerivedCodec()
