"""Whether Spark can open a table by its log: all that Spark reads beside the commits has to agree with them. No JVM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.lake.delta_log import MALFORMED, DamagedLogError, check_commits, read_columns
from penstock.lake.hadoop_sums import fits_sums
from penstock.lake.log_facts import LogState, list_log, parse_metadata, parse_protocol, read_state
from penstock.lake.log_names import LAST_CHECKPOINT, LOG, find_checkpoints, find_commits, find_compacted
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles

_READER, _WRITER = 3, 7
"""The highest versions of the protocol: since then, tables name the features that they need."""
_STATED = ("id", "schemaString", "partitionColumns", "configuration")
_REMOVE = "remove that file, or restore it from a backup"


def check_log(files: Files, table: str, *, with_sums: bool = True) -> LogState | None:
    """The table at its newest version; None when there is no table.

    DamagedLogError names the first file of the log that is missing, cannot be read, or does not agree with the others; with
    sums, also one that Spark would not read because its bytes have changed.
    """
    if check_commits(files, table) is None:
        return None
    state = read_state(files, table)
    _check_table(state, table)
    _check_checksum(files, table, state)
    _check_compacted(files, table, state)
    if with_sums and isinstance(files, LocalFiles):
        _check_sums(files, table)
    return state


def _check_sums(files: LocalFiles, table: str) -> None:
    names = list_log(files, table)
    newest = max(find_checkpoints(names), key=lambda checkpoint: checkpoint.version, default=None)
    after = -1 if newest is None else newest.version
    commits = [f"{version:020d}.json" for version in find_commits(names) if version > after]
    for name in (*(newest.names if newest is not None else ()), *commits):
        if f".{name}.crc" in names and not fits_sums(files, f"{table}/{LOG}/{name}"):
            raise DamagedLogError(
                f"the file {name} of the Delta log of {table} does not fit .{name}.crc, Hadoop's checksum of it, which may be "
                "removed if the file is right",
                hint=f"if the file is right, remove .{name}.crc; otherwise restore it from a backup",
            )


def _check_table(state: LogState, table: str) -> None:
    """What every table has. A checkpoint that is another Parquet file says nothing of it."""
    if not state.protocol or not state.metadata or not read_columns(state.metadata["schemaString"]):
        raise DamagedLogError(
            f"the Delta log of {table} does not say which columns the table has",
            hint="restore the newest checkpoint or commit from a backup",
        )
    reader, writer = (state.protocol[name] for name in ("minReaderVersion", "minWriterVersion"))
    if reader > _READER or writer > _WRITER:
        raise DamagedLogError(
            f"by its log, {table} needs a newer Delta (protocol {reader} to read and {writer} to write it)",
            hint="upgrade Delta, or move the table's folder away and run again",
        )


def _check_checksum(files: Files, table: str, state: LogState) -> None:
    """Beside the newest commit Spark states what the table is, and opens it by that."""
    name = f"{state.version:020d}.crc"
    try:
        stated = json.loads(files.read(f"{table}/{LOG}/{name}"))
        protocol, metadata = parse_protocol(stated["protocol"]), parse_metadata(stated["metadata"])
        counts = (stated.get("numFiles"), stated.get("tableSizeBytes"))
    except (OSError, *MALFORMED):  # without it, Spark reads the commits
        return
    if protocol != state.protocol or _select(metadata) != _select(state.metadata):
        raise DamagedLogError(f"the file {name} of the Delta log of {table} does not fit the log", hint=_REMOVE)
    found = (len(state.live), sum(file.size for file in state.live.values()))
    if any(count not in {None, known} for count, known in zip(counts, found, strict=True)):
        raise DamagedLogError(
            f"by the file {name} of the Delta log of {table}, the table has other data files: a commit was replaced, "
            "or this file",
            hint="restore the log from a backup; remove the file only if the table has all its rows",
        )


def _select(metadata: Mapping[str, Any]) -> list[Any]:
    return [metadata[name] for name in _STATED]


def _check_compacted(files: Files, table: str, state: LogState) -> None:
    """Spark reads a file that sums up commits in their place. Hardly any table has one."""
    names = list_log(files, table)
    start = max((checkpoint.version for checkpoint in find_checkpoints(names)), default=-1)
    for compacted in find_compacted(names):
        if not start < compacted.first <= compacted.last <= state.version:
            continue
        through = read_state(files, table, state.version, through=compacted)
        if (through.live, through.protocol, through.metadata) != (state.live, state.protocol, state.metadata):
            raise DamagedLogError(
                f"the file {compacted.name} of the Delta log of {table} does not fit the commits", hint=_REMOVE
            )


def find_false_pointer(files: Files, table: str) -> str | None:
    """What is wrong with the file that names a checkpoint: Spark does without it, and other readers cannot open the table."""
    path = f"{table}/{LOG}/{LAST_CHECKPOINT}"
    try:
        version = json.loads(files.read(path))["version"]
    except FileNotFoundError:
        return None
    except (OSError, *MALFORMED):
        return f"{path} cannot be read"
    if not isinstance(version, int):
        return f"{path} names no version"
    known = {checkpoint.version for checkpoint in find_checkpoints(list_log(files, table))}
    return None if version in known else f"{path} names version {version}, which has no checkpoint"
