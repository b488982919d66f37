"""Whether a Delta table can be read: its log, and its data files by their sizes, without reading them. No JVM."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import Enum

from penstock.lake.delta_log import MALFORMED, DamagedLogError, check_commits, find_version
from penstock.lake.log_checks import check_log
from penstock.lake.log_facts import LiveFile, list_log, to_live_file
from penstock.lake.log_names import LOG, find_checkpoints, find_commits
from penstock.lake.stored_paths import to_relative
from penstock.model.names import DatasetName
from penstock.model.progress import Damage
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles

_AROUND_VECTOR = 8
"""A deletion vector stands between its length and its checksum, of four bytes each."""


class Look(Enum):
    """How closely a plan looks at a table."""

    BRIEF = "brief"
    """Nothing will be written: only what costs almost nothing."""
    LOG = "log"
    """The table is written every few seconds: all of its log that a writer reads, and what costs almost nothing."""
    FULL = "full"
    """The table is about to be written."""


def find_damage(files: Files, name: DatasetName, look: Look) -> Damage | None:
    """What is wrong with the log or the data files of a table, or of its quarantine table; None when nothing is found.

    In an object store, where every look takes a request, only a table that is about to be written is looked at.
    """
    if look is Look.BRIEF and not isinstance(files, LocalFiles):
        return None
    found = find_table_damage(files, name.path, look)
    if found is not None or find_version(files, name.quarantine.path) is None:
        return found
    found = find_table_damage(files, name.quarantine.path, look)
    return replace(found, text=f"of its quarantine table, {found.text}") if found is not None else None


def find_table_damage(files: Files, table: str, look: Look = Look.FULL, *, is_ours: bool = True) -> Damage | None:
    """What is wrong with the log of a Delta table, or with its data files and deletion vectors by their sizes.

    A table that Penstock writes has all its files in its folder. Another may be a shallow clone: files that lie elsewhere are
    not looked at.
    """
    if _look_once(files, table, look, is_ours=is_ours) is None:
        return None
    # Once more: another process may have removed files that the log no longer names, or old parts of the log.
    return _look_once(files, table, Look.FULL, is_ours=is_ours)


def _look_once(files: Files, table: str, look: Look, *, is_ours: bool) -> Damage | None:
    try:
        if look is Look.FULL or _is_without_checkpoint(files, table):
            state = check_log(files, table, with_sums=look is Look.FULL)
            live: Collection[LiveFile] = state.live.values() if state is not None else ()
        else:
            check_commits(files, table)
            live = _find_stated(files, table)
    except DamagedLogError as error:
        return Damage(error.code, error.message)
    strays = [file.path for file in live if file.is_elsewhere] if is_ours else []
    wrong = f"the data file {strays[0]} is not in the table's folder" if strays else _find_wrong(files, table, live)
    return to_damage(wrong) if wrong is not None else None


def to_damage(text: str) -> Damage:
    """The damage of a table whose log is sound, and whose data files are not."""
    return Damage("data_damaged", text)


def _is_without_checkpoint(files: Files, table: str) -> bool:
    """Whether the whole log is read at little cost: in an object store, each file of it takes a request."""
    return isinstance(files, LocalFiles) and not find_checkpoints(list_log(files, table))


def _find_stated(files: Files, table: str) -> Collection[LiveFile]:
    """The live files as Spark states them beside the newest commit of a small table; none if it does not, or at some cost."""
    if not isinstance(files, LocalFiles):
        return ()
    try:
        newest = max(find_commits(files.names(f"{table}/{LOG}")))
        stated = json.loads(files.read(f"{table}/{LOG}/{newest:020d}.crc"))
        found = [to_live_file(add) for add in stated["allFiles"]]
        return found if len(found) == stated["numFiles"] else ()
    except (OSError, *MALFORMED):
        return ()


def _find_wrong(files: Files, table: str, live: Collection[LiveFile]) -> str | None:
    """The first file that is not as the log says, in words.

    In an object store a file may be larger than its writer knows: encryption by the client adds to it.
    """
    is_exact = isinstance(files, LocalFiles)
    wanted = {path: file.size for file in live if (path := to_relative(file.path)) is not None}
    vectors = _find_ends(live)
    sizes = _find_sizes(files, table, (*wanted, *vectors))
    for path, size in wanted.items():
        found = sizes.get(path)
        if found is None or found < size or (is_exact and found > size):
            return _describe("data file", path, found, f"{size}")
    for path, end in vectors.items():
        if sizes.get(path, 0) < end:
            return _describe("deletion vector", path, sizes.get(path), f"at least {end}")
    return None


def _find_ends(live: Iterable[LiveFile]) -> dict[str, int]:
    """The files with deletion vectors, and where the last vector that counts ends in each."""
    found: dict[str, int] = {}
    for vector in (file.vector for file in live if file.vector is not None):
        if vector.file is not None:
            found[vector.file] = max(found.get(vector.file, 0), (vector.offset or 0) + vector.size + _AROUND_VECTOR)
    return found


def _find_sizes(files: Files, table: str, paths: Iterable[str]) -> Mapping[str, int]:
    """The sizes of those files that are there."""
    if isinstance(files, LocalFiles):  # one look at each file: old ones of the table, often more, are not listed
        return {path: size for path in paths if (size := files.size(f"{table}/{path}")) is not None}
    return {file.path.removeprefix(f"{table}/"): file.size for file in files.walk(table)}


def _describe(what: str, path: str, size: int | None, wanted: str) -> str:
    if size is None:
        return f"the {what} {path} is missing"
    return f"the {what} {path} is damaged: it has {size} bytes, and by the table's log {wanted}"
