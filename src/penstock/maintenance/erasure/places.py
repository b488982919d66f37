"""Where the residue scan looks: everything that a project has, named for the receipt; and where columns are there. No JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.eventlog.delta_location import to_location
from penstock.kinds.catalog import Catalog
from penstock.maintenance.scan.needles import Column
from penstock.maintenance.scan.places import FilePlace, FolderPlace, PostgresPlace
from penstock.maintenance.scan.places import Place as ScanPlace
from penstock.model.dataset import Dataset, Place
from penstock.model.event_log_uris import parse_event_log_uri
from penstock.storage.addresses import without_scheme
from penstock.storage.files import open_files

STORAGE, RAW, STATE, LOG, PROJECTION = (
    "storage",
    "raw files",
    "state folder",
    "event log",
    "projection of the event log",
)


def scan_places(catalog: Catalog) -> list[ScanPlace]:
    """Storage, raw folder, change files, state folder, event log, and its cache outside the project."""
    project = catalog.workspace.project
    found: list[ScanPlace] = [FolderPlace(STORAGE, catalog.workspace.storage)]
    if project.raw is not None:
        found.append(FolderPlace(RAW, open_files(project.raw.path, project.configuration)))
    found += [FolderPlace(_feed_name(feed), open_files(feed.uri, project.configuration)) for feed in _feeds(catalog)]
    if project.state_folder.is_dir():
        found.append(FolderPlace(STATE, open_files(str(project.state_folder))))
    return [*found, *_log_places(project.event_log)]


def _feeds(catalog: Catalog) -> Iterator[Place]:
    """Folders of source files outside the raw folder, each once."""
    raw = catalog.workspace.project.raw
    known = {without_scheme(raw.path)} if raw is not None else set[str]()
    for dataset in catalog.datasets.values():
        for place in catalog.kind_of(dataset.kind).places(dataset):
            if not place.is_ours and without_scheme(place.uri) not in known:
                known.add(without_scheme(place.uri))
                yield place


def _feed_name(place: Place) -> str:
    return f"change files in {place.uri}"


def _log_places(uri: str) -> Iterator[ScanPlace]:
    parsed = parse_event_log_uri(uri)
    match parsed.form.backend:
        case "sqlite":
            yield FilePlace(LOG, Path(parsed.path))
        case "postgres":
            yield PostgresPlace(LOG, uri)
        case "delta":
            location = to_location(parsed)
            yield FolderPlace(LOG, open_files(location.table, settings=location.settings))
            yield FilePlace(PROJECTION, location.projection)


def columns_at(catalog: Catalog, dataset: Dataset, column: str) -> tuple[Column, ...]:
    """Where the residue scan finds a column of a dataset: in all of its places, under the names that it has there."""
    project = catalog.workspace.project
    raw = without_scheme(project.raw.path) if project.raw is not None else None
    found: dict[Column, None] = {}
    for place in catalog.kind_of(dataset.kind).places(dataset, catalog.state(dataset)):
        names = place.names_of(column) | {column.lower()}
        if place.is_ours:
            where: Iterable[tuple[str, str]] = [(STORAGE, place.uri)]
        elif without_scheme(place.uri) == raw:
            where = [(RAW, member) for member in (place.members if place.members is not None else ("",))]
        else:
            where = [(_feed_name(place), "")]
        found |= {Column((name,), at, folder.strip("/")): None for at, folder in where for name in sorted(names)}
    return tuple(found)
