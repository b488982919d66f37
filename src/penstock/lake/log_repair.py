"""A table whose Delta log is damaged is written again with a new log: Delta could not read the old one, and so not replace it.

Needs everything that the table holds to come with the new rows: kinds decide that before they replace a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from penstock.faults import fault_point
from penstock.lake.delta_log import DamagedLogError
from penstock.lake.log_checks import check_log
from penstock.lake.log_names import LOG
from penstock.lake.manifests import FOLDER
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles

_ASIDE = "damaged_log_"


@contextmanager
def repaired_log(files: Files, table: str) -> Iterator[None]:
    """While the table is replaced, its log is set aside if it is damaged; removed after it, or put back after an error."""
    if not has_damaged_log(files, table):
        yield
        _remove_asides(files, table)
        return
    log, aside = f"{table}/{LOG}", f"{table}/{FOLDER}/{_ASIDE}{uuid4().hex}"
    _move(files, log, aside)
    fault_point("repair.after_aside", table)
    try:
        yield
    except BaseException:
        _remove(files, log)
        _move(files, aside, log)
        raise
    _remove_asides(files, table)


def has_damaged_log(files: Files, table: str) -> bool:
    """Whether a file of the log that a reader of the table needs is missing, cannot be read, or does not fit the others."""
    try:
        check_log(files, table)
    except DamagedLogError:
        return True
    return False


def _remove_asides(files: Files, table: str) -> None:
    """Remove logs that were set aside, by killed processes too: the smallest and greatest values of columns are in them."""
    for folder in files.folders(f"{table}/{FOLDER}"):
        if folder.startswith(_ASIDE):
            _remove(files, f"{table}/{FOLDER}/{folder}")


def _move(files: Files, folder: str, to: str) -> None:
    """Move a folder; in an object store the oldest commits go first: what is left of a log is still damaged."""
    if isinstance(files, LocalFiles):
        files.rename_folder(folder, to)
        return
    for file in files.walk(folder):
        files.create(f"{to}/{file.path.removeprefix(f'{folder}/')}", files.read(file.path))
        files.remove(file.path)


def _remove(files: Files, folder: str) -> None:
    if isinstance(files, LocalFiles):
        files.remove_folder(folder)
        return
    for file in files.walk(folder):
        files.remove(file.path)
