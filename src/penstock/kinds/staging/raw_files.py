"""Raw batches: which files belong to which staging table. A listing is all that a no-op needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.errors import StorageError
from penstock.model.names import QUARANTINE_SUFFIX, is_name_part
from penstock.model.progress import RawFile
from penstock.model.text_files import find_text_ending
from penstock.storage.files import Files
from penstock.storage.hashing import hash_stream
from penstock.storage.local import LocalFiles

_SUFFIX = ".parquet"


@dataclass(frozen=True, slots=True)
class RawListing:
    """The raw folder as it is now: files per table, and names that cannot be a table."""

    tables: Mapping[str, tuple[RawFile, ...]]
    bad_names: tuple[str, ...] = ()
    colliding: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tables with the spellings of their name in raw, where there are several: it is unknown whether they are one table."""
    ignored: tuple[str, ...] = ()
    """Files of a known format that do not fit the layout."""
    unlisted: Mapping[str, StorageError] = field(default_factory=dict)
    """Tables whose folder cannot be listed, and why."""


@dataclass(slots=True)
class _Collected:
    tables: dict[str, list[RawFile]] = field(default_factory=dict)
    spellings: dict[str, set[str]] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    unlisted: dict[str, StorageError] = field(default_factory=dict)


def list_raw(files: Files, layout: str) -> RawListing:
    """List the raw folder by its layout; without hidden files (a leading dot or underscore) and other formats."""
    collected = _Collected()
    by_folder = layout.startswith("{table}/")
    if by_folder:
        for folder in files.folders(""):
            if not folder.startswith((".", "_")):
                collected.tables.setdefault(folder.lower(), [])
                collected.spellings.setdefault(folder.lower(), set()).add(folder)
    for file in _list_by_table(files, collected) if by_folder and isinstance(files, LocalFiles) else files.walk(""):
        _place(file, by_folder, collected)
    bad = {name for name in collected.tables if not is_name_part(name) or name.endswith(QUARANTINE_SUFFIX)}
    twice = {name for name, spellings in collected.spellings.items() if len(spellings) > 1} - bad
    return RawListing(
        {name: tuple(found) for name, found in sorted(collected.tables.items()) if name not in bad | twice},
        tuple(sorted(spelling for name in bad for spelling in collected.spellings[name])),
        {name: tuple(sorted(collected.spellings[name])) for name in sorted(twice)},
        tuple(sorted(collected.ignored)),
        collected.unlisted,
    )


def _list_by_table(files: LocalFiles, collected: _Collected) -> Iterator[RawFile]:
    """The files of each table's folder; a folder that cannot be listed does not keep the others from it."""
    yield from (RawFile(name, 0) for name in files.names(""))  # they belong to no table
    for folder in files.folders(""):
        if not folder.startswith((".", "_")):
            try:
                yield from files.walk(folder)
            except StorageError as error:
                collected.unlisted[folder.lower()] = error


def _place(file: RawFile, by_folder: bool, collected: _Collected) -> None:
    parts = file.path.split("/")
    ending = _find_ending(file.path)
    if ending is None or any(part.startswith((".", "_")) for part in parts):
        return
    if len(parts) != 2:
        collected.ignored.append(file.path)
        return
    table = parts[0] if by_folder else parts[1].removesuffix(ending)
    collected.tables.setdefault(table.lower(), []).append(file)
    collected.spellings.setdefault(table.lower(), set()).add(table)


def _find_ending(path: str) -> str | None:
    """The ending of a file that can be loaded: Parquet, CSV or JSON lines, the latter two compressed or not."""
    if path.endswith(_SUFFIX):
        return _SUFFIX
    found = find_text_ending(path)
    return found[0] if found is not None else None


def hash_content(files: Files, path: str) -> str:
    """A hash of the whole file, to distinguish a rewritten file from one that was only touched."""
    with files.open(path) as stream:
        return hash_stream(stream)
