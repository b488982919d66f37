"""What functions import, or load by a computed name, when they are called.

Project modules that a function imports are loaded before its definition is judged, so that its calls can be followed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator

from penstock.definitions.trace_sources import FunctionNode, LoadingCall, SourceFile, Sources, imported_names
from penstock.errors import Location
from penstock.model.spec import Untraced


class LocalImports:
    """The imports inside the functions of one definition."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._missing: set[str] = set()

    def load(self, source: SourceFile, node: FunctionNode) -> Iterator[Untraced]:
        """Load the project's modules that a function imports; gives what is wrong with them."""
        package = list(source.path.relative_to(self._sources.files.root).parent.parts)
        for name in imported_names(node, package):
            if self._sources.module_file(name) is None:
                self._missing.update({name} - sys.modules.keys())
                continue
            try:
                importlib.import_module(name)
            except (Exception, SystemExit) as error:  # noqa: BLE001
                text = f"importing {name} failed with {type(error).__name__}"
                yield Untraced("untraced_import", text, Location(source.shown, node.lineno))

    def has_found_more(self) -> bool:
        """Whether something has been loaded since that could not be found: another definition may change Python's path."""
        return not self._missing.isdisjoint(sys.modules)


def loading_remarks(source: SourceFile, calls: Iterable[LoadingCall]) -> Iterator[Untraced]:
    """Code that a module loads by a computed name cannot be part of the fingerprint."""
    for call in calls:
        text = f"{call.name}() loads code that cannot be traced"
        yield Untraced("untraced_import", text, Location(source.shown, call.line))
