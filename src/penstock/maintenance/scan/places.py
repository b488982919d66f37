"""Where a scan looks: folders, object-store prefixes, single files, and event logs in PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock.storage.files import Files
from penstock.storage.local import LocalFiles

_SQLITE_COMPANIONS = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """All files below a folder or an object-store prefix."""

    name: str
    files: Files
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """One local file, such as an event log in SQLite, with what SQLite keeps beside it."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """The tables of an event log in PostgreSQL."""

    name: str
    uri: str = field(repr=False)


Place = FolderPlace | FilePlace | PostgresPlace


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder of a place."""

    place: str
    files: Files
    path: str
    size: int = 0
    is_folder: bool = False
    problem: str | None = None
    """Why it cannot be read."""

    @property
    def address(self) -> str:
        """What makes it one file, even if two places contain it."""
        if isinstance(self.files, LocalFiles):
            return os.path.realpath(self.files.root / self.path)
        return f"{self.files.uri}/{self.path}"


def list_entries(place: FolderPlace | FilePlace) -> Iterator[Entry]:
    """Every file and folder of a place; a folder that cannot be listed is an entry with a problem."""
    if isinstance(place, FilePlace):
        files = LocalFiles(place.path.absolute().parent)
        for ending in ("", *_SQLITE_COMPANIONS):
            file = place.path.with_name(place.path.name + ending)
            if file.exists():
                yield Entry(place.name, files, file.name, file.stat().st_size)
    elif isinstance(place.files, LocalFiles):
        yield from _walk(place.name, place.files, place.prefix.strip("/"), frozenset())
    else:
        for found in place.files.walk(place.prefix):
            yield Entry(place.name, place.files, found.path, found.size)


def place_exists(place: FolderPlace | FilePlace) -> bool:
    """Whether there is such a folder or file. An object store has no empty folders: one without files does not exist."""
    if isinstance(place, FilePlace):
        return place.path.exists()
    return isinstance(place.files, LocalFiles) and (place.files.root / place.prefix).exists()


def _walk(place: str, files: LocalFiles, folder: str, above: frozenset[str]) -> Iterator[Entry]:
    """Like `Files.walk`, but with empty folders, links that lead nowhere, and what cannot be read."""
    real = os.path.realpath(files.root / folder)
    if real in above:  # a link to a folder above
        return
    try:
        with os.scandir(files.root / folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Entry(place, files, folder, is_folder=True, problem=f"cannot be listed ({type(error).__name__})")
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir():
            yield Entry(place, files, path, is_folder=True)
            yield from _walk(place, files, path, above | {real})
        elif entry.is_file():
            try:
                yield Entry(place, files, path, entry.stat().st_size)
            except FileNotFoundError:
                continue
        elif entry.is_symlink():
            yield Entry(place, files, path, is_folder=True)  # it leads nowhere: there is only its name
        else:
            yield Entry(place, files, path, problem="not a file or folder")
