"""Raw batches: which files belong to which staging table. A listing is all that a no-op needs."""

from __future__ import annotations

import stat
from collections.abc import Mapping
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
    """What has the name of a raw file, and does not fit the layout or is no file."""
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
            if not _is_hidden(folder):
                _add_table(folder, collected)
    if not isinstance(files, LocalFiles):
        for file in files.walk(""):
            _place(file, collected, by_folder=by_folder)
    elif by_folder:
        _list_by_table(files, collected)
    else:
        _list_batches(files, collected)
    bad = {name for name in collected.tables if not is_name_part(name) or name.endswith(QUARANTINE_SUFFIX)}
    twice = {name for name, spellings in collected.spellings.items() if len(spellings) > 1} - bad
    return RawListing(
        {name: tuple(found) for name, found in sorted(collected.tables.items()) if name not in bad | twice},
        tuple(sorted(spelling for name in bad for spelling in collected.spellings[name])),
        {name: tuple(sorted(collected.spellings[name])) for name in sorted(twice)},
        tuple(sorted(collected.ignored)),
        collected.unlisted,
    )


def _list_by_table(files: LocalFiles, collected: _Collected) -> None:
    """The files of each table's folder; a folder that cannot be listed does not keep the others from it."""
    for name in files.names(""):  # they belong to no table
        _place(RawFile(name, 0), collected, by_folder=True)
    for link in files.dead_links(""):
        if _find_ending(link) is not None:
            _place(RawFile(link, 0), collected, by_folder=True)
        elif is_name_part(link) and not _is_hidden(link):  # what is in it is unknown: it was not removed
            _add_table(link, collected)
            collected.unlisted[link.lower()] = _dead(files, link)
    for folder in files.folders(""):
        if not _is_hidden(folder):
            try:
                _place_all(files, folder, collected, by_folder=True)
            except StorageError as error:
                collected.unlisted[folder.lower()] = error


def _list_batches(files: LocalFiles, collected: _Collected) -> None:
    """The files of all batches; StorageError when one of them cannot be listed, because any table can have a file in it."""
    for link in files.dead_links(""):
        if not _is_hidden(link) and _find_ending(link) is None:
            raise _dead(files, link)
    _place_all(files, "", collected, by_folder=False)


def _place_all(files: LocalFiles, folder: str, collected: _Collected, *, by_folder: bool) -> None:
    others = []
    for file, mode in files.walk_all(folder):
        if stat.S_ISREG(mode):
            _place(file, collected, by_folder=by_folder)
        elif stat.S_ISLNK(mode):
            _place_dead(files, file, collected, by_folder=by_folder)
        elif _find_loadable(file.path) is not None:
            others.append((file.path, "a folder" if stat.S_ISDIR(mode) else "not a file"))
    known = tuple(collected.ignored)
    collected.ignored += [f"{path} ({what})" for path, what in others if not _has_below(path, known)]


def _has_below(folder: str, paths: tuple[str, ...]) -> bool:
    return any(path.startswith(f"{folder}/") for path in paths)


def _place_dead(files: LocalFiles, link: RawFile, collected: _Collected, *, by_folder: bool) -> None:
    """A file whose content is unknown is not one that was removed: its table must wait for it."""
    table = _place(link, collected, by_folder=by_folder)
    if table is not None:
        collected.unlisted.setdefault(table, _dead(files, link.path))


def _dead(files: LocalFiles, path: str) -> StorageError:
    return StorageError(
        f"{files.root / path} is a link that leads nowhere",
        hint="restore what it leads to, such as a mount, or remove the link",
    )


def _place(file: RawFile, collected: _Collected, *, by_folder: bool) -> str | None:
    """Give a file to its table, which is returned; None when it belongs to none."""
    ending, parts = _find_loadable(file.path), file.path.split("/")
    if ending is None:
        return None
    if len(parts) != 2:
        collected.ignored.append(file.path)
        return None
    table = parts[0] if by_folder else parts[1].removesuffix(ending)
    _add_table(table, collected).append(file)
    return table.lower()


def _add_table(spelled: str, collected: _Collected) -> list[RawFile]:
    collected.spellings.setdefault(spelled.lower(), set()).add(spelled)
    return collected.tables.setdefault(spelled.lower(), [])


def _find_loadable(path: str) -> str | None:
    """The ending of what a raw file could be; None where a part of its path is hidden too."""
    return None if any(map(_is_hidden, path.split("/"))) else _find_ending(path)


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


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
