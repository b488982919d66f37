"""The head of a Delta table's log, read as files: no JVM, no Delta library, a few small reads per table.

Only what planning needs: the current version, the last transaction number that Penstock committed, and whether
anyone else changed rows since. Usually no commit file from before the last log clean-up is needed for that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from penstock.errors import StorageError
from penstock.lake.log_names import LOG, find_checkpoints, find_checksums, find_commits
from penstock.model.progress import check_type
from penstock.model.schema import Column
from penstock.model.types import to_text, type_from_json
from penstock.storage.delta_rs import open_delta_table
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles, is_misplaced

APPLICATION = "penstock"
FENCED = 1 << 62
"""A version above that of every load: once an application id has it, nothing more can be committed under that id."""
_HIGHEST = 10**18
"""Delta's transaction numbers have 63 bits: from this number on a table would soon have none left."""

_WRITES = ("WRITE", "STREAMING UPDATE")

_RESTORE = "restore the file from a backup, or move the table's folder away and run again"
MALFORMED = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading JSON raises that is not what a log has: no JSON, or values of other types."""


class DamagedLogError(StorageError):
    """A commit file of a Delta table is missing or cannot be parsed."""

    code = "log_damaged"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a Delta table, from its log file."""

    version: int
    number: int | None
    operation: str
    timestamp_ms: int
    changes_rows: bool
    metrics: Mapping[str, str] = field(default_factory=dict)
    schema_json: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    """How the operation was called, as its writer describes it."""

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The table's columns, when this commit states them."""
        return read_columns(self.schema_json) if self.schema_json else None


@dataclass(frozen=True, slots=True)
class LogHead:
    """A Delta log as its listing shows it."""

    version: int | None
    """The newest version; None when there is no table."""
    missing: int | None = None
    """A version whose commit is gone although the table cannot be read without it."""
    checkpoint: int = -1
    """The version of the newest checkpoint; -1 when there is none."""


def find_version(files: Files, table: str) -> int | None:
    """The current version of the Delta table in this folder; None when the table does not exist."""
    commits, checkpoints, _ = _versions(files, table)
    return max([*commits, *checkpoints], default=None)


def read_head(files: Files, table: str) -> LogHead:
    """The newest version of a table, and whether the listing of its log has every commit that a reader needs."""
    head = _find_head(*_versions(files, table))
    # A commit that comes while the folder is listed can be passed over, and its checksum be seen.
    return head if head.missing is None else _find_head(*_versions(files, table))


def _find_head(commits: Sequence[int], checkpoints: Sequence[int], checksums: Sequence[int]) -> LogHead:
    newest = max([*commits, *checkpoints, *checksums], default=None)
    if newest is None:
        return LogHead(None)
    present, start = set(commits), max(checkpoints, default=-1)
    # The newest commit is needed in any case: to write, Spark reads its time, and no clean-up removes it.
    first = min(start + 1, newest)
    return LogHead(newest, next((each for each in range(first, newest + 1) if each not in present), None), start)


def check_commits(files: Files, table: str) -> int | None:
    """Read every commit that a reader of the table needs, and give its version; None when there is no table.

    DamagedLogError names the first commit that is missing or unreadable.
    """
    head = read_head(files, table)
    check_head(head, table)
    states_columns = head.checkpoint >= 0
    for commit in iter_commits(files, table):
        if commit.version <= head.checkpoint:
            return head.version
        states_columns = states_columns or commit.schema_json is not None
    if head.version is not None and not states_columns:
        raise _damaged(0, table)
    return head.version


def check_head(head: LogHead, table: str) -> None:
    """DamagedLogError when a commit is missing."""
    if head.missing is not None:
        raise DamagedLogError(f"the Delta log entry of version {head.missing} of {table} is missing", hint=_RESTORE)


def find_checkpointed_number(files: Files, table: str) -> int | None:
    """Penstock's last load number from a checkpoint, for when log clean-up removed the commit that had it."""
    if not _versions(files, table)[1]:
        return None
    from deltalake.exceptions import DeltaError

    try:
        return open_delta_table(files.spark_path(table), files.reader_options).transaction_version(APPLICATION)
    except (DeltaError, OSError, StorageError):
        return None


def iter_commits(files: Files, table: str) -> Iterator[Commit]:
    """The commits whose log files still exist, newest first; each file is read only when asked for."""
    for version in sorted(_versions(files, table)[0], reverse=True):
        try:
            content = files.read(f"{table}/{LOG}/{version:020d}.json")
        except FileNotFoundError:  # log clean-up ran meanwhile
            return
        except OSError as error:
            if not is_misplaced(error):
                raise
            raise _damaged(version, table) from None
        try:
            commit = _to_commit(version, content)
        except MALFORMED:
            raise _damaged(version, table) from None
        yield commit


def _damaged(version: int, table: str) -> DamagedLogError:
    return DamagedLogError(
        f"the Delta log entry of version {version} of {table} cannot be read",
        hint=_RESTORE,
    )


def _versions(files: Files, table: str) -> tuple[list[int], list[int], list[int]]:
    """The versions of the commits, the checkpoints and the checksum files in a log."""
    log = f"{table}/{LOG}"
    names = files.entries(log) if isinstance(files, LocalFiles) else files.names(log)
    return find_commits(names), [checkpoint.version for checkpoint in find_checkpoints(names)], find_checksums(names)


def _to_commit(version: int, content: bytes) -> Commit:
    number: int | None = None
    info: dict[str, Any] = {}
    changes_rows = False
    kinds: set[str] = set()
    schema_json: str | None = None
    for action in _parse_actions(content):
        kinds.update(action)
        if "txn" in action:
            found = number_of(action["txn"])
            number = found if found is not None else number
        elif "commitInfo" in action:
            info = action["commitInfo"]
        elif "metaData" in action:
            schema_json = action["metaData"]["schemaString"]
            read_columns(schema_json)  # whoever asks for the columns need not expect an error
        elif "add" in action or "remove" in action:
            file = action.get("add") or action["remove"]
            changes_rows = changes_rows or bool(file.get("dataChange", True))
    operation = str(info.get("operation", "unknown")).encode(errors="replace").decode()
    # Its writer can say that an append changes nothing; what only arranges rows anew removes files too.
    changes_rows = changes_rows or (operation in _WRITES and "add" in kinds and "remove" not in kinds)
    return Commit(
        version=version,
        number=number,
        operation=operation,
        timestamp_ms=int(info.get("timestamp", 0)),
        changes_rows=changes_rows,
        metrics={str(key): str(value) for key, value in (info.get("operationMetrics") or {}).items()},
        schema_json=schema_json,
        parameters={str(key): str(value) for key, value in (info.get("operationParameters") or {}).items()},
    )


def _parse_actions(content: bytes) -> Iterator[dict[str, Any]]:
    if not content.strip():
        raise ValueError("a commit must hold at least one action")
    for line in content.splitlines():
        if line.strip():
            yield check_type(json.loads(line), dict)


def to_application(number: int) -> str:
    """The application id of commits that may run beside others of the same table: Delta skips none of them."""
    return f"{APPLICATION}/{number}"


def is_load_number(number: int) -> bool:
    """Whether a load can have this number: what has another one, manifest or commit, is not by Penstock."""
    return 0 <= number < _HIGHEST


def number_of(transaction: Mapping[str, Any]) -> int | None:
    """Penstock's load number: the version of our application, or of an application id of its own; a fence has none."""
    version = int(transaction["version"])
    is_ours = transaction["appId"].partition("/")[0] == APPLICATION
    if not is_ours or version == FENCED:
        return None
    if not is_load_number(version):
        raise ValueError("no load has this number, and none could commit after it")
    return version


@lru_cache(maxsize=16)  # of one table, several files state the same columns
def read_columns(schema_json: str) -> tuple[Column, ...]:
    """Columns from the JSON of a schema in Delta's log."""
    fields = json.loads(schema_json)["fields"]
    return tuple(Column(f["name"], to_text(type_from_json(f["type"])), f["nullable"]) for f in fields)
