"""Which source files were searched for the keys of tombstones that are physical, and which are new since then. No JVM.

After an erasure only hashes tell its keys, so a file that comes later must be searched for them. A note beside the progress
manifests of a table has a short hash of each file as it was listed when it was searched, and the ids of the tombstones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from penstock.kinds.catalog import Catalog
from penstock.lake.manifests import FOLDER
from penstock.model.dataset import Dataset, Form, Place
from penstock.model.fingerprint import fingerprint
from penstock.model.names import DatasetName
from penstock.model.progress import RawFile, TableState
from penstock.model.tombstones import Tombstone, TombstoneState
from penstock.storage.files import open_files, overwrite

_NOTE = f"{FOLDER}/searched-sources.json"
_DIGEST_BYTES = 12

Listing = Mapping[tuple[str, str], str]
"""The files of a dataset as they are listed: a digest of each, by the address of its place and its path there."""


@dataclass(frozen=True, slots=True)
class Unsearched:
    """A table with source files that were not searched for the keys of all its physical tombstones."""

    dataset: Dataset
    tombstones: tuple[Tombstone, ...]
    files: Listing = field(repr=False)
    """The files to search."""

    @property
    def name(self) -> DatasetName:
        return self.dataset.name

    @property
    def digests(self) -> frozenset[str]:
        return frozenset(self.files.values())


def source_places(catalog: Catalog, dataset: Dataset, state: TableState[Any]) -> Iterator[Place]:
    """The places of a dataset with files that are not listed by name in its progress."""
    for place in catalog.kind_of(dataset.kind).places(dataset, state):
        if place.form is not Form.DELTA and not place.is_listed:
            yield place


def is_source(place: Place, file: RawFile) -> bool:
    """Whether a file below a place belongs to the dataset and can have records."""
    return is_member(place, file.path) and file.size > 0


def is_member(place: Place, path: str) -> bool:
    """Whether a file below a place belongs to the dataset."""
    if place.members is not None:
        return path in place.members
    return not any(part.startswith((".", "_")) for part in path.split("/"))


def digest(uri: str, file: RawFile) -> str:
    """A file as it is listed; one with another content has another digest."""
    return fingerprint([uri, file.path, file.size, file.modified_ns, file.etag], size=_DIGEST_BYTES)


def find_unsearched(
    catalog: Catalog, tombstones: Iterable[Tombstone], seen: Mapping[DatasetName, AbstractSet[str]] | None = None
) -> list[Unsearched]:
    """The tables with source files that no search for the keys of their physical tombstones has seen; `seen` says more of them.

    A released tombstone does not count: its key may be there.
    """
    physical: dict[DatasetName, list[Tombstone]] = {}
    for each in tombstones:
        if each.state is TombstoneState.PHYSICAL and each.table in catalog.datasets:
            physical.setdefault(each.table, []).append(each)
    walks: dict[str, list[RawFile]] = {}
    found = []
    for table, group in physical.items():
        dataset = catalog.datasets[table]
        state = catalog.state(dataset)
        listing = _list_sources(catalog, dataset, state, walks)
        known = _read_note(catalog, dataset, state, group) | (seen or {}).get(table, frozenset())
        if left := {where: each for where, each in listing.items() if each not in known}:
            found.append(Unsearched(dataset, tuple(group), left))
    return found


def _list_sources(
    catalog: Catalog, dataset: Dataset, state: TableState[Any], walks: dict[str, list[RawFile]]
) -> Listing:
    """The source files of a dataset; folders that several datasets share are walked once."""
    project = catalog.workspace.project
    found: dict[tuple[str, str], str] = {}
    for place in source_places(catalog, dataset, state):
        files = open_files(place.below(project.storage), project.configuration)
        if files.uri not in walks:
            walks[files.uri] = files.walk("")
        members = (file for file in walks[files.uri] if is_source(place, file))
        found |= {(files.uri, file.path): digest(files.uri, file) for file in members}
    return found


def read_searched(catalog: Catalog, dataset: Dataset, tombstones: Iterable[Tombstone]) -> frozenset[str]:
    """The files of a dataset, by their digests, that were searched for all of these tombstones."""
    return _read_note(catalog, dataset, catalog.state(dataset), tombstones)


def note_searched(catalog: Catalog, dataset: Dataset, tombstones: Iterable[Tombstone], files: Iterable[str]) -> None:
    """Note that these files of a dataset, by their digests, were searched for these tombstones, and nothing else was.

    Files that are gone, or were replaced since, are left out.
    """
    state = catalog.state(dataset)
    now = frozenset(_list_sources(catalog, dataset, state, {}).values())
    value = {
        "how": _how(catalog, dataset, state),
        "types": _types(state),
        "tombstones": sorted(each.id for each in tombstones),
        "files": sorted(now.intersection(files)),
    }
    overwrite(catalog.workspace.storage, f"{dataset.name.path}/{_NOTE}", json.dumps(value).encode())


def _read_note(
    catalog: Catalog, dataset: Dataset, state: TableState[Any], tombstones: Iterable[Tombstone]
) -> frozenset[str]:
    """Nothing when there is no note, or what it says does not hold for the way in which files are read now."""
    wanted = list(tombstones)
    columns = {column.name.lower() for each in wanted for column in each.key}
    types = _types(state)
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        note = json.loads(catalog.workspace.storage.read(f"{dataset.name.path}/{_NOTE}"))
        is_same = note["how"] == _how(catalog, dataset, state)
        is_same &= all(note["types"].get(column) == types.get(column) for column in columns)
        if is_same and {each.id for each in wanted} <= set(note["tombstones"]):
            return frozenset(note["files"])
    return frozenset()


def _how(catalog: Catalog, dataset: Dataset, state: TableState[Any]) -> str:
    """How files are read: after a change, every file is searched again."""
    return fingerprint(
        [
            [place.uri, repr(place.feed), place.message_key, sorted((n, sorted(of)) for n, of in place.names.items())]
            for place in source_places(catalog, dataset, state)
        ]
    )


def _types(state: TableState[Any]) -> dict[str, str]:
    """The types of the table's columns: a text is also compared as the value that it becomes."""
    return {column.key: column.type for column in state.schema.columns} if state.schema else {}
