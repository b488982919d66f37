"""The progress of every table that read a file, while the file is replaced: it accepts the old and the new content.

So no kill makes a file look changed. One commit per table before, one after, for all files together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.faults import fault_point
from penstock.kinds.catalog import Catalog
from penstock.kinds.protocol import Kind
from penstock.lake.restating import restate
from penstock.lake.tables import Lake
from penstock.maintenance.files.values import Rewritten
from penstock.model.dataset import Dataset
from penstock.model.progress import ConsumedFile, NewContent, RawFile, TableState
from penstock.storage.addresses import to_address
from penstock.storage.files import Files
from penstock.storage.hashing import hash_stream


@dataclass(frozen=True, slots=True)
class Located:
    """A file of a place, as it is listed now."""

    files: Files
    file: RawFile

    @property
    def address(self) -> str:
        return to_address(f"{self.files.uri.rstrip('/')}/{self.file.path}")

    def hash_content(self) -> str:
        with self.files.open(self.file.path) as stream:
            return hash_stream(stream)


@dataclass(frozen=True, slots=True)
class Replacing:
    """A file with the new content that lies aside."""

    located: Located
    rewritten: Rewritten


@dataclass(frozen=True, slots=True)
class Consumers:
    """The tables of a project that consumed source files."""

    lake: Lake
    catalog: Catalog

    def accept(self, replacing: Mapping[str, Replacing]) -> None:
        """Let every table that consumed the present content of these files accept the new one too."""

        def change(address: str, entry: ConsumedFile) -> ConsumedFile | None:
            wanted = replacing.get(address)
            if wanted is None:
                return None
            old, new = wanted.rewritten.old, wanted.rewritten.new
            listed = replace(wanted.located.file, path=entry.file.path)
            known = entry.recognize(listed, lambda: old.content_hash)
            # A file that was changed by somebody else is loaded again anyway: its new content must not count as loaded.
            return known and replace(known, replacement=NewContent(new.size, new.content_hash, new.rows))

        self._restate(change, "sources.after_accept")

    def settle(self, now: Mapping[str, Located]) -> None:
        """Keep only the content that each of these files has now, of those that were being replaced."""

        def change(address: str, entry: ConsumedFile) -> ConsumedFile | None:
            located = now.get(address)
            if located is None or entry.replacement is None:
                return None
            listed = replace(located.file, path=entry.file.path)
            known = entry.recognize(listed, located.hash_content)
            return replace(known or entry, replacement=None)

        self._restate(change, "sources.after_settle")

    def _restate(self, change: Callable[[str, ConsumedFile], ConsumedFile | None], point: str) -> None:
        for dataset, kind, state in self._tables():
            files = kind.consumed_files(dataset, state.payload)
            changed = {address: new for address, entry in files.items() if (new := change(address, entry)) is not None}
            if changed:
                payload = kind.with_files(dataset, state.payload, changed)
                restate(self.lake, dataset.name, kind.codec, state, payload)
                fault_point(point, str(dataset.name))

    def _tables(self) -> Iterator[tuple[Dataset, Kind, TableState[Any]]]:
        stored = [dataset for dataset in self.catalog.datasets.values() if dataset.is_stored]
        states = self.catalog.states(dataset.name for dataset in stored)
        for dataset in stored:
            if states[dataset.name].payload is not None:
                yield dataset, self.catalog.kind_of(dataset.kind), states[dataset.name]
