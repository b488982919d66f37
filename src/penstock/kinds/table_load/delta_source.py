"""A Delta table as a source, looked at through its log. No JVM."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.databases.contract import Look, SourceColumn, StoredSource
from penstock.errors import PenstockError, SourceError
from penstock.lake.delta_log import find_version, iter_commits, read_columns
from penstock.model.loads import DeltaSource
from penstock.storage.delta_rs import open_delta_table
from penstock.storage.files import Files, open_files


def open_place(source: DeltaSource, configuration: Mapping[str, str]) -> tuple[Files, str]:
    """The folder that the table's folder is in, and the table's name there."""
    parent, _, name = source.path.rstrip("/").rpartition("/")
    return open_files(parent or "/", configuration), name


def show_delta(source: DeltaSource) -> str:
    """What messages call it."""
    return f"the Delta table {source.path}"


def look_at_delta(source: DeltaSource, configuration: Mapping[str, str]) -> Look:
    """Its columns; the stamp names the version that changed rows or columns last."""
    files, name = open_place(source, configuration)
    version = find_version(files, name)
    if version is None:
        raise SourceError(f"{show_delta(source)} does not exist", hint="check the path of the load")
    stated, changed = None, None
    for commit in iter_commits(files, name):
        stated = stated or commit.schema_json
        if changed is None and (commit.changes_rows or commit.schema_json):
            changed = f"{commit.version} at {commit.timestamp_ms}"
        if stated and changed:
            break
    if stated is None:
        stated = _read_schema(source, files, name)
    columns = tuple(SourceColumn(c.name, c.type, c.type, c.nullable) for c in read_columns(stated))
    return Look(columns, stamp=changed or f"version {version}")


def to_stored(source: DeltaSource, configuration: Mapping[str, str]) -> StoredSource:
    """The table as something to compare with."""
    files, name = open_place(source, configuration)
    look = look_at_delta(source, configuration)
    return StoredSource(show_delta(source), look, files.spark_path(name), files.reader_options)


def _read_schema(source: DeltaSource, files: Files, name: str) -> str:
    """The schema from a checkpoint, when log clean-up removed the commit that stated it."""
    try:
        return open_delta_table(files.spark_path(name), files.reader_options).schema().to_json()
    except PenstockError:
        raise
    except Exception:  # noqa: BLE001 - delta-rs raises many kinds; none may show a key of the store
        raise SourceError(f"the log of {show_delta(source)} cannot be read", hint="check the table") from None
