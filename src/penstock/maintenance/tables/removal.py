"""Removing the files that a table no longer has: exactly those that its log names as removed. No JVM.

Delta's VACUUM without retention also removes what no commit names, such as the files of an append in flight: afterwards the
table names files that are missing. Here such a file goes only when it is old.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from penstock.errors import ConcurrentRunError
from penstock.faults import fault_point
from penstock.lake.log_facts import LogFacts, read_facts
from penstock.lake.log_names import LOG
from penstock.maintenance.tables.values import Caution, Removed
from penstock.maintenance.tables.watch import Watch
from penstock.model.progress import RawFile
from penstock.storage.files import Files

_CHANGE_DATA = "_change_data"
_POLL = 0.2
_EMPTY = 1 << 20
"""A larger file, in bytes, has rows."""
_NANOSECONDS = 1e9


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The files below a table's folder that are or were part of it."""

    removed: tuple[RawFile, ...]
    unknown: tuple[RawFile, ...]
    """No commit names them, and they may hold rows."""
    harmless: tuple[RawFile, ...] = ()
    """No commit names them, but they hold no value: what Delta writes beside a commit and does not need."""

    def young(self, age: float) -> tuple[RawFile, ...]:
        """The unknown files that are younger than this, in seconds."""
        return tuple(file for file in self.unknown if _age(file) < age)


def find_stored(files: Files, table: str, facts: LogFacts) -> StoredFiles:
    """Compare what is stored with what the log names. Hadoop's checksum files belong to the files that they are about."""
    removed, unknown = [], []
    live, gone = facts.state.files, facts.removed
    listed = files.walk(table)
    for file in listed:
        path = file.path[len(table) + 1 :]
        if _is_foreign(path):
            continue
        subject = _subject_of(path)
        if subject in gone:
            removed.append(file)
        elif subject not in live:
            unknown.append(file)
    newest = max((file.modified_ns or 0 for file in listed if _is_commit(file.path)), default=0)
    empty = {file.path for file in unknown if _is_unused_vector(file, newest) or _has_no_rows(files, file)}
    return StoredFiles(
        tuple(removed),
        tuple(file for file in unknown if _subject_of(file.path) not in empty),
        tuple(file for file in unknown if _subject_of(file.path) in empty),
    )


def wait_for_writers(watch: Watch, caution: Caution) -> None:
    """Wait for writes that hold no lease, by the young files that no commit names; ConcurrentRunError when they do not end."""
    table, deadline = watch.name.path, time.monotonic() + caution.wait
    while young := find_stored(watch.files, table, read_facts(watch.files, table)).young(caution.settle):
        watch.check()
        if time.monotonic() >= deadline:
            raise ConcurrentRunError(
                f"{watch.name}: no commit names {len(young)} files that were written in the last {caution.settle:.0f} seconds: "
                "another program may be writing to the table; nothing more was removed",
                hint="stop other writers of the table, and run again",
            )
        time.sleep(_POLL)


def remove_dead_files(watch: Watch, caution: Caution) -> Removed:
    """Remove the files that the log names as removed, and unknown ones that are old; gives those that are not."""
    table = watch.name.path
    stored = find_stored(watch.files, table, read_facts(watch.files, table))
    young = {file.path for file in stored.young(caution.unknown_age)}
    old = [file for file in (*stored.unknown, *stored.harmless) if _age(file) >= caution.unknown_age]
    fault_point("removal.before_files", str(watch.name))
    watch.check()
    for file in sorted((*stored.removed, *old), key=_order):
        watch.lease.check()
        with suppress(FileNotFoundError):
            watch.files.remove(file.path)
        fault_point("removal.after_file", str(watch.name))
    for folder in watch.files.folders(table):
        if not _is_foreign(f"{folder}/x"):
            watch.files.remove_empty_folders(f"{table}/{folder}")
    return Removed(
        len(stored.removed) + len(old),
        sum(file.size for file in (*stored.removed, *old)),
        len(old),
        tuple(sorted(path[len(table) + 1 :] for path in young)),
    )


def _is_foreign(path: str) -> bool:
    """Whether a path is no part of the table, as Delta sees it: in a hidden folder, such as the log, or a stream's checkpoint."""
    first, _, rest = path.partition("/")
    is_hidden = first.startswith(("_", ".")) and "=" not in first and first != _CHANGE_DATA
    return is_hidden and bool(rest)


def _is_commit(path: str) -> bool:
    return path.endswith(".json") and path.split("/")[-2] == LOG


def _is_unused_vector(file: RawFile, newest_commit_ns: int) -> bool:
    """Whether it is a deletion vector of a commit that removed whole files instead; a newer one may be of a write in flight."""
    is_vector = file.path.rsplit("/", 1)[-1].startswith("deletion_vector_")
    return is_vector and file.modified_ns is not None and file.modified_ns <= newest_commit_ns


def _has_no_rows(files: Files, file: RawFile) -> bool:
    """Whether it is a Parquet file without rows: Spark writes one when a commit adds nothing, and Delta does not name it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.path.endswith(".parquet") or file.size > _EMPTY:
        return False
    try:
        with files.open(file.path) as stream:
            return bool(pq.ParquetFile(stream).metadata.num_rows == 0)
    except (OSError, pa.ArrowInvalid):  # removed meanwhile, or still being written
        return False


def _subject_of(path: str) -> str:
    """The file itself, or the one that Hadoop's checksum file `.name.crc` is about."""
    folder, slash, name = path.rpartition("/")
    is_checksum = name.startswith(".") and name.endswith(".crc")
    return f"{folder}{slash}{name[1:-4]}" if is_checksum else path


def _order(file: RawFile) -> tuple[str, bool]:
    """A checksum file goes before its subject: a subject that is left after a kill is found again by the log."""
    return _subject_of(file.path), _subject_of(file.path) == file.path


def _age(file: RawFile) -> float:
    return time.time() - file.modified_ns / _NANOSECONDS if file.modified_ns is not None else 0.0
