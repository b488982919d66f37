"""Shallow clones: tables that read files of another one, and would break when those are removed. No JVM."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from penstock.errors import PenstockError, StorageError
from penstock.lake.log_facts import LogState, read_state
from penstock.lake.log_names import LOG
from penstock.storage.addresses import without_scheme
from penstock.storage.files import Files

_DEPTH = 5


def check_no_clones(files: Files, table: str, state: LogState) -> None:
    """StorageError when the table is a shallow clone, or when another one below the same storage reads its files."""
    if state.elsewhere:
        raise StorageError(
            f"{table} is a shallow clone: {len(state.elsewhere)} of its files belong to another table",
            hint="make it a table of its own first, for instance with CREATE OR REPLACE TABLE ... AS SELECT",
        )
    for clone in find_clones(files, table):
        raise StorageError(
            f"{clone} is a shallow clone that reads files of {table}, and would break",
            hint="drop the clone, or make it a table of its own",
        )


def find_clones(files: Files, table: str) -> Iterator[str]:
    """The tables below the storage that read files of this one."""
    root = f"{without_scheme(files.spark_path(table))}/"
    for other in find_tables(files):
        if other == table:
            continue
        try:
            elsewhere = read_state(files, other).elsewhere
        except PenstockError:  # a table that cannot be read cannot be said to be a clone
            continue
        if any(without_scheme(unquote(path)).startswith(root) for path in elsewhere):
            yield other


def find_tables(files: Files, folder: str = "", depth: int = _DEPTH) -> Iterator[str]:
    """The Delta tables below a folder."""
    folders = files.folders(folder)
    if LOG in folders:
        yield folder
        return
    for name in folders if depth else ():
        yield from find_tables(files, f"{folder}/{name}" if folder else name, depth - 1)
