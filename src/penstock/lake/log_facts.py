"""What a Delta table's log says: the files that are live, and every file that it ever named. No JVM.

Read as files, from commits and checkpoints of every form, because no library tells which files a log names as removed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import StorageError
from penstock.lake.delta_log import MALFORMED, DamagedLogError, number_of, read_columns
from penstock.lake.log_names import (
    LOG,
    SIDECARS,
    Compacted,
    checkpoint_files,
    find_checkpoints,
    find_commits,
    find_compacted,
)
from penstock.lake.stored_paths import Vector, check_path, to_relative
from penstock.model.progress import check_type
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles, is_misplaced

Action = Mapping[str, Any]

_ACTIONS = ("add", "remove", "cdc", "txn", "protocol", "metaData", "domainMetadata", "sidecar")
_FILE_FIELDS = ("path", "size", "deletionVector", "partitionValues")
_ROWS = re.compile(r'"numRecords"\s*:\s*(\d+)')


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file that the table has now."""

    path: str
    size: int
    vector: Vector | None = None
    partition: tuple[tuple[str, str | None], ...] = ()
    """Its values of the partition columns."""
    rows: int | None = None
    """Its rows, hidden ones included; None when they were not asked for, or the log does not say."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether it, or its deletion vector, lies outside the table's folder."""
        return to_relative(self.path) is None or (self.vector is not None and self.vector.is_elsewhere)


@dataclass(frozen=True, slots=True)
class LogState:
    """A table at one version."""

    version: int
    live: Mapping[str, LiveFile]
    """By the path as the log writes it."""
    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    transactions: Mapping[str, int]
    domains: Mapping[str, str]

    @property
    def elsewhere(self) -> list[str]:
        """Live files outside the table's folder: it is a shallow clone."""
        return [path for path, file in self.live.items() if file.is_elsewhere]

    @property
    def hidden_in(self) -> list[LiveFile]:
        """The data files that hold rows which no reader sees."""
        return [file for file in self.live.values() if file.vector is not None]

    @property
    def files(self) -> frozenset[str]:
        """The live data files and deletion vectors below the table's folder."""
        vectors = {file.vector.file for file in self.live.values() if file.vector is not None}
        paths = {to_relative(path) for path in self.live}
        return frozenset(path for path in (*paths, *vectors) if path is not None)

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.metadata.get("configuration") or {}

    @property
    def features(self) -> frozenset[str]:
        """The table features that readers or writers must know."""
        named = (*(self.protocol.get("readerFeatures") or ()), *(self.protocol.get("writerFeatures") or ()))
        return frozenset(named)


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Everything that a table's log says now."""

    state: LogState
    named: frozenset[str]
    """Every file below the table's folder that some commit or checkpoint names: data, change data and deletion vectors."""
    commits: tuple[int, ...]
    checkpoints: tuple[int, ...]

    @property
    def removed(self) -> frozenset[str]:
        """The files that the log names and that the table no longer has; change data is no part of the table."""
        return self.named - self.state.files


def read_facts(files: Files, table: str) -> LogFacts:
    """Everything that the log of a table says; StorageError when there is none."""
    names = list_log(files, table)
    named: set[str] = set()
    commits = find_commits(names)
    for name in [
        *(f"{version:020d}.json" for version in commits),
        *(each.name for each in find_compacted(names)),
        *checkpoint_files(names),
    ]:
        with _readable(f"{table}/{LOG}/{name}"):
            for action in _read_actions(files, table, name):
                named.update(_files_of(action))
    checkpoints = sorted({checkpoint.version for checkpoint in find_checkpoints(names)})
    return LogFacts(read_state(files, table), frozenset(named), tuple(commits), tuple(checkpoints))


def read_state(
    files: Files,
    table: str,
    until: int | None = None,
    checkpoints_below: int | None = None,
    *,
    through: Compacted | None = None,
    with_rows: bool = False,
) -> LogState:
    """The table at its newest version, or at `until`; if asked, without the checkpoints from a version on.

    With `through`, a file that sums up commits is read in their place, as Spark does.

    The rows of each file are counted only if asked for: they are in the statistics, which are most of a checkpoint.
    """
    names = list_log(files, table)
    commits = [version for version in find_commits(names) if until is None or version <= until]
    highest = min(until if until is not None else sys.maxsize, (checkpoints_below or sys.maxsize) - 1)
    checkpoints = [each for each in find_checkpoints(names) if each.version <= highest]
    if not commits and not checkpoints:
        raise StorageError(f"{table} is not a Delta table", hint="check the name")
    replay = _Replay(table, with_rows)
    start = -1
    if checkpoints:
        start = checkpoints[-1].version
        for name in checkpoints[-1].names:
            replay.apply(files, table, name)
    after = [version for version in commits if version > start]
    if after != list(range(start + 1, start + 1 + len(after))):
        raise DamagedLogError(
            f"the Delta log of {table} has a gap after version {start}", hint="restore the file from a backup"
        )
    for name in _find_names(after, through):
        replay.apply(files, table, name)
    return replay.to_state(after[-1] if after else start)


def _find_names(versions: Sequence[int], through: Compacted | None) -> list[str]:
    if through is None:
        return [f"{version:020d}.json" for version in versions]
    before = [version for version in versions if version < through.first]
    after = [version for version in versions if version > through.last]
    return [*_find_names(before, None), through.name, *_find_names(after, None)]


def list_log(files: Files, table: str) -> list[str]:
    """What the log has, files or not: a folder in the place of a file must not look as if there were none."""
    log = f"{table}/{LOG}"
    return files.entries(log) if isinstance(files, LocalFiles) else files.names(log)


def find_sidecars(files: Files, table: str, names: Sequence[str]) -> list[str]:
    """The sidecar files of a checkpoint."""
    found = []
    for path in (f"{table}/{LOG}/{name}" for name in names):
        with _readable(path):
            found += [str(action["sidecar"]["path"]) for action in _read_file(files, path) if "sidecar" in action]
    return found


@dataclass(slots=True)
class _Replay:
    """Actions added up in the order of their versions."""

    table: str
    with_rows: bool = False
    live: dict[str, LiveFile] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)

    def apply(self, files: Files, table: str, name: str) -> None:
        """One commit or checkpoint. A commit that gives a file another vector removes and adds it, in any order."""
        with _readable(f"{table}/{LOG}/{name}"):
            known = list(_read_actions(files, table, name, with_rows=self.with_rows))
            for action in known:
                if (remove := action.get("remove")) is not None:
                    self.live.pop(remove["path"], None)
            for action in known:
                self._add(action)

    def _add(self, action: Action) -> None:
        if (add := action.get("add")) is not None:
            self.live[add["path"]] = to_live_file(add, with_rows=self.with_rows)
        elif (txn := action.get("txn")) is not None:
            self._add_transaction(txn["appId"], int(txn["version"]), number_of(txn))
        elif (protocol := action.get("protocol")) is not None:
            self.protocol = parse_protocol(protocol)
        elif (metadata := action.get("metaData")) is not None:
            self.metadata = parse_metadata(metadata)
        elif (domain := action.get("domainMetadata")) is not None:
            self.domains[domain["domain"]] = check_type(domain["configuration"], str)
            if domain.get("removed"):
                del self.domains[domain["domain"]]

    def _add_transaction(self, application: str, version: int, number: int | None) -> None:
        """Delta never commits a load number twice: then one commit stands in the place of another."""
        if number is not None and version <= self.transactions.get(application, -1):
            raise DamagedLogError(
                f"the Delta log of {self.table} has load {number} twice, or after a later one",
                hint="restore the commits from a backup",
            )
        self.transactions[application] = version

    def to_state(self, version: int) -> LogState:
        return LogState(version, self.live, self.protocol, self.metadata, self.transactions, self.domains)


def to_live_file(add: Action, *, with_rows: bool = False) -> LiveFile:
    """The file that an action adds to a table."""
    rows = _ROWS.search(add.get("stats") or "") if with_rows else None
    count = int(rows[1]) if rows else None
    return LiveFile(check_path(add["path"]), int(add["size"]), _to_vector(add), _to_partition(add), count)


def _read_actions(files: Files, table: str, name: str, *, with_rows: bool = False) -> Iterator[Action]:
    """The actions of a commit or a checkpoint, those in its sidecars too."""
    folder = f"{table}/{LOG}"
    for action in _read_file(files, f"{folder}/{name}", with_rows=with_rows):
        if sidecar := action.get("sidecar"):
            yield from _read_file(files, f"{folder}/{SIDECARS}/{sidecar['path']}", with_rows=with_rows)
        else:
            yield action


def _read_file(files: Files, path: str, *, with_rows: bool = False) -> Iterator[Action]:
    with _readable(path):
        if path.endswith(".parquet"):
            yield from _read_parquet(files, path, with_rows=with_rows)
            return
        for line in files.read(path).splitlines():
            if line.strip():
                yield check_type(json.loads(line), dict)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Whatever is wrong with a file of the log, or with what it says, is damage of that table."""
    try:
        yield
    except FileNotFoundError:
        raise DamagedLogError(f"the log file {path} is missing", hint="restore the file from a backup") from None
    except MALFORMED:
        raise _unreadable(path) from None
    except OSError as error:  # those of the system have a number; others say that a Parquet file is not valid
        if error.errno is not None and not is_misplaced(error):
            raise
        raise _unreadable(path) from None


def _unreadable(path: str) -> DamagedLogError:
    return DamagedLogError(f"the log file {path} cannot be read", hint="restore the file from a backup")


def _read_parquet(files: Files, path: str, *, with_rows: bool) -> Iterator[Action]:
    """The rows of a checkpoint; the statistics of files, which are most of it, only if rows are to be counted."""
    import pyarrow.parquet as pq

    with files.open(path) as stream:
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        present = set(file.schema_arrow.names)
        columns = [name for name in _ACTIONS if name in present and name not in {"add", "remove", "cdc"}]
        for name in ("add", "remove", "cdc"):
            if name in present:
                inner = {field.name for field in file.schema_arrow.field(name).type}
                wanted = (*_FILE_FIELDS, *(("stats",) if with_rows and name == "add" else ()))
                columns += [f"{name}.{part}" for part in wanted if part in inner]
        for batch in file.iter_batches(columns=columns):
            for row in batch.to_pylist():
                for name, value in row.items():
                    if value is not None and any(part is not None for part in value.values()):
                        yield {name: value}


def _files_of(action: Action) -> Iterator[str]:
    """The files below the table's folder that an action names."""
    for name in ("add", "remove", "cdc"):
        value = action.get(name)
        if value is None:
            continue
        path, vector = to_relative(value["path"]), _to_vector(value)
        if path is not None:
            yield path
        if vector is not None and vector.file is not None:
            yield vector.file


def _to_vector(value: Action) -> Vector | None:
    found = value.get("deletionVector")
    if not found or found.get("storageType") is None:
        return None
    offset = found.get("offset")
    vector = Vector(
        check_type(found["storageType"], str),
        check_path(found["pathOrInlineDv"]),
        int(offset) if offset is not None else None,
        int(found["sizeInBytes"]),
        int(found["cardinality"]),
    )
    if vector.size < 0 or (vector.offset or 0) < 0:
        raise ValueError("a deletion vector cannot begin or end before its file")
    _ = vector.file  # fails when its name cannot be read
    return vector


def _to_partition(value: Action) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(_to_texts(value.get("partitionValues")).items()))


def _to_texts(value: Any) -> dict[str, str | None]:
    """A commit has a mapping here, and a checkpoint a list of pairs."""
    texts = dict(value or {})
    return {check_type(key, str): check_type(text, str, None) for key, text in texts.items()}


def _to_names(value: Any) -> list[str]:
    return [check_type(name, str) for name in check_type(value or [], list)]


def parse_protocol(value: Action) -> dict[str, Any]:
    """The versions and the features that a table needs."""
    features = {name: sorted(_to_names(value.get(name))) for name in ("readerFeatures", "writerFeatures")}
    return {name: int(value[name]) for name in ("minReaderVersion", "minWriterVersion")} | features


def parse_metadata(value: Action) -> dict[str, Any]:
    """The columns and properties of a table."""
    same = ("id", "name", "description", "schemaString", "createdTime")
    read_columns(value["schemaString"])
    return {name: value.get(name) for name in same} | {
        "format": value["format"]["provider"],
        "partitionColumns": _to_names(value.get("partitionColumns")),
        "configuration": _to_texts(value.get("configuration")),
    }
