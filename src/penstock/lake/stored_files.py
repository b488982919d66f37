"""Errors about a table's own data files, as errors that name the table and say how to get it back. No JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from penstock.errors import ConcurrentRunError, RawFileError, StorageError, message_of
from penstock.lake.log_names import LOG
from penstock.model.names import DatasetName
from penstock.storage.files import Files

_READING = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE|DELTA_FILE_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException|ParquetDecodingException"
    r"|is not a Parquet file|parquet\.io|DELTA_DELETION_VECTOR"
)


@contextmanager
def stored_files_named(name: DatasetName, files: Files) -> Iterator[None]:
    """Turn an error about a data file below the storage into one with its table; other errors pass."""
    try:
        yield
    except (ConcurrentRunError, RawFileError):
        raise
    except Exception as error:
        found = _find_file(error, files)
        if found is None:
            raise
        raise _to_error(name, *found) from error


def _to_error(name: DatasetName, table: str, path: str) -> StorageError:
    reads = "" if table == str(name) else f"{name} reads {table}: "
    if path.startswith(f"{LOG}/"):
        folder, file = f"{table.replace('.', '/')}/{LOG}", path.removeprefix(f"{LOG}/")
        return StorageError(
            f"{reads}Spark cannot read {path} of {table}; nothing was written",
            hint=f"if there is a file {folder}/.{file}.crc, which Hadoop wrote, it does not fit: remove it, and run again",
        )
    return StorageError(
        f"{reads}the data file {path} of {table} is missing or damaged; nothing was written",
        hint=f"restore it from a backup, or write the table again from its sources: penstock rebuild {table}",
    )


def _find_file(error: BaseException | None, files: Files) -> tuple[str, str] | None:
    """The table and the file, below the storage, that an error or one of its causes is about."""
    root = files.spark_path("").removeprefix("file://").rstrip("/")
    pattern = re.compile(re.escape(root) + r"/([^/\s'\"]+)/([^/\s'\"]+)/([^\s'\"]+?)(?:[.:,;]?(?:[\s'\")\]]|$))")
    while error is not None:
        said = unquote(message_of(error))
        match = pattern.search(said) if _READING.search(said) else None
        if match:
            return f"{match[1]}.{match[2]}", match[3]
        error = error.__cause__ or error.__context__
    return None
