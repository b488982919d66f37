"""The graph of datasets as text, Mermaid or DOT: what reads what."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.model.names import DatasetName


@dataclass(frozen=True, slots=True)
class DatasetGraph:
    """Datasets in an order in which each comes after what it reads, with their kinds, and who reads each."""

    kinds: Mapping[DatasetName, str]
    readers: Mapping[DatasetName, Sequence[DatasetName]] = field(default_factory=dict)

    def draw(self, how: str) -> str:
        """The graph as a tree in `text`, as `mermaid`, or as `dot`."""
        return {"text": self._to_text, "mermaid": self._to_mermaid, "dot": self._to_dot}[how]()

    def to_json(self) -> dict[str, Any]:
        return {
            "datasets": [{"dataset": str(name), "kind": kind} for name, kind in self.kinds.items()],
            "edges": [{"from": str(read), "to": str(reader)} for read, reader in self._edges()],
        }

    def _edges(self) -> list[tuple[DatasetName, DatasetName]]:
        return [(name, reader) for name in self.kinds for reader in self.readers.get(name, ())]

    def _to_text(self) -> str:
        """A tree below each dataset that reads nothing; what a dataset has below it is drawn once: the text stays short."""
        read = {reader for _, reader in self._edges()}
        drawn: set[DatasetName] = set()
        lines = [line for name in self.kinds if name not in read for line in self._draw_tree(name, drawn)]
        return "\n".join(lines)

    def _draw_tree(self, root: DatasetName, drawn: set[DatasetName]) -> list[str]:
        lines: list[str] = []
        waiting = [(root, 0)]
        while waiting:  # no recursion: a chain of datasets can be longer than Python's stack
            name, depth = waiting.pop()
            readers = self.readers.get(name, ())
            is_known = name in drawn and bool(readers)
            lines.append(f"{'  ' * depth}{name}{'  (see above)' if is_known else ''}")
            drawn.add(name)
            waiting += [] if is_known else [(reader, depth + 1) for reader in reversed(readers)]
        return lines

    def _to_mermaid(self) -> str:
        places = {name: f"d{place}" for place, name in enumerate(self.kinds)}
        shapes = {"staging": ("[(", ")]"), "load": ("[(", ")]"), "temporary_view": ("([", "])")}
        lines = ["flowchart LR"]
        for name, kind in self.kinds.items():
            opening, closing = shapes.get(kind, ("[", "]"))
            lines.append(f'  {places[name]}{opening}"{name}"{closing}')
        lines += [f"  {places[read]} --> {places[reader]}" for read, reader in self._edges()]
        return "\n".join(lines)

    def _to_dot(self) -> str:
        lines = ["digraph penstock {", "  rankdir=LR;", "  node [shape=box];"]
        for name, kind in self.kinds.items():
            style = ' [style="dashed"]' if kind == "temporary_view" else ""
            lines.append(f"  {json.dumps(str(name))}{style};")
        lines += [f"  {json.dumps(str(read))} -> {json.dumps(str(reader))};" for read, reader in self._edges()]
        return "\n".join([*lines, "}"])
