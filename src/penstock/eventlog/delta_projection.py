"""The local projection of a Delta log: a SQLite file, updated from the table's new commits.

Queries run here, as fast as on a SQLite log. The processes of a machine share the file, and it can be deleted at any
time: the table is the source of truth. The applied version is written in the same transaction as the rows.
"""

from __future__ import annotations

import io
import json
import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.errors import EventLogError
from penstock.eventlog.contract import StorageTroubleError, check_version
from penstock.eventlog.delta_commits import INDEX_BITS, INLINE, VERSION_PROPERTY, commit_name, commit_tag, from_inline
from penstock.eventlog.delta_location import Location
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold import apply_events, only_new
from penstock.eventlog.retry import LostRaceError
from penstock.eventlog.store import SqliteStore, selecting
from penstock.eventlog.tables import ALL_TABLES, SCHEMA_VERSION
from penstock.model.clock import Clock

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

logger = logging.getLogger(__name__)

APPLIED = "applied_version"
_COMMITS = 100
_TRUSTED_SECONDS = 7 * 86_400
"""For this long the commits after the applied one are certainly still there (logs are kept for 30 days)."""


class ResyncNeededError(Exception):
    """The projection cannot be updated commit by commit and must be rebuilt."""


class Projection:
    """Keeps the local file up to date; safe to use from many threads and processes."""

    def __init__(self, location: Location, clock: Clock) -> None:
        self._location = location
        self._clock = clock
        self._files = location.open_files()
        self.store = _open_store(location, clock)
        self._lock = threading.Lock()
        self.log_version = SCHEMA_VERSION
        """The schema version of the table."""
        self._reshaped = False
        self.added_columns: tuple[str, ...] = ()
        """Columns that the table has beyond those of version 1."""

    @property
    def applied(self) -> int:
        """The last table version whose events are in the projection; -1 when there is none."""
        rows = self.store.select("SELECT value FROM penstock_meta WHERE name = ?", (APPLIED,))
        return int(rows[0][0]) if rows else -1

    def open(self) -> bool:
        """Use what the file has; False when it does not match the table, and must be rebuilt."""
        connection = self.store.connection()
        applied = self.applied
        tag = self.store.meta(connection, "applied_tag")
        synced = float(self.store.meta(connection, "synced_seconds") or 0)
        if applied < 0 or self._clock.now_ns() / 1e9 - synced > _TRUSTED_SECONDS:
            return False
        commit = self._read(commit_name(applied))
        if commit is None or commit_tag(commit) != tag:
            return False
        self.load_shape()
        return True

    def catch_up(self) -> None:
        """Apply every new commit; what another process applied meanwhile is not applied again."""
        with self._lock:
            while self._files.exists(commit_name(self.applied + 1)):
                self._reshaped = False
                with self.store.transaction() as connection:
                    for _ in range(_COMMITS):
                        if not self._apply_next(connection):
                            break
                if self._reshaped:
                    self.load_shape()

    @contextmanager
    def fold_first(self, version: int, items: Sequence[Encoded], recorded_at: int) -> Iterator[None]:
        """Fold events that are about to be committed as this version; the block commits them to the table.

        Events that cannot be folded are never committed, and a commit that fails is not folded. When the block has
        committed and what follows fails, the commit is read from the table like that of any other writer.
        """
        entries = [((version << INDEX_BITS) + index, item, recorded_at) for index, item in enumerate(items)]
        try:
            with self.store.transaction() as connection:
                if int(self.store.meta(connection, APPLIED) or -1) != version - 1:
                    raise LostRaceError("other writers are faster")
                self._apply_entries(connection, entries)
                yield
                self._set_applied(connection, version, self._read(commit_name(version)) or b"")
        except sqlite3.OperationalError as error:
            raise StorageTroubleError(f"the local projection of {self._location.uri} failed: {error}") from error
        except sqlite3.Error as error:
            raise EventLogError(
                f"{len(items)} events cannot be folded, so they were not written: {error}",
                hint="this is a bug in penstock: please report it",
            ) from error

    def reload(self, table: DeltaTable) -> None:
        """Rebuild the projection from the table's snapshot."""
        from penstock.eventlog.delta_rows import from_table
        from penstock.eventlog.delta_table import in_order

        version = table.version()
        with self._lock, self.store.transaction() as connection:
            for name in ALL_TABLES:
                if name != "penstock_meta":
                    connection.execute(f"DELETE FROM {name}")  # noqa: S608
            connection.execute("DELETE FROM penstock_meta WHERE name <> 'schema_version'")
            for paths in in_order(table):
                self._apply_entries(connection, from_table(self._read_rows(paths)))
            self._note_shape(connection, table.metadata().configuration, [f.name for f in table.schema().fields])
            self._set_applied(connection, version, self._read(commit_name(version)) or b"")
        self.load_shape()

    def _read(self, name: str) -> bytes | None:
        try:
            return self._files.read(name)
        except FileNotFoundError:
            return None

    def _apply_next(self, connection: sqlite3.Connection) -> bool:
        """Apply the next commit; False when there is none."""
        version = int(self.store.meta(connection, APPLIED) or -1) + 1
        commit = self._read(commit_name(version))
        if commit is None:
            return False
        inline, adds = None, []
        for action in map(json.loads, commit.splitlines()):
            if "metaData" in action:
                fields = json.loads(action["metaData"]["schemaString"])["fields"]
                self._note_shape(connection, action["metaData"]["configuration"], [field["name"] for field in fields])
                self._reshaped = True
            elif "commitInfo" in action:
                inline = action["commitInfo"].get(INLINE)
            elif "remove" in action and action["remove"].get("dataChange"):
                raise ResyncNeededError(f"version {version} removed events")
            elif "add" in action and action["add"].get("dataChange"):
                adds.append(action["add"])
        if inline is not None:
            self._apply_entries(connection, from_inline(inline, version))
        elif adds:
            self._apply_adds(connection, adds)
        self._set_applied(connection, version, commit)
        return True

    def _apply_adds(self, connection: sqlite3.Connection, adds: list[dict[str, Any]]) -> None:
        from penstock.eventlog.delta_rows import from_table

        if any(add.get("deletionVector") for add in adds):
            raise ResyncNeededError("rows of a file were deleted")
        self._apply_entries(connection, from_table(self._read_rows([add["path"] for add in adds])))

    def _read_rows(self, paths: Sequence[str]) -> pa.Table:
        """The rows of data files, named as in the transaction log."""
        from urllib.parse import unquote

        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = []
        for path in paths:
            content = self._read(unquote(path))
            if content is None:
                raise ResyncNeededError("a data file of an older commit was removed")
            tables.append(pq.ParquetFile(io.BytesIO(content)).read(use_threads=False))
        return pa.concat_tables(tables, promote_options="default")

    def _apply_entries(
        self, connection: sqlite3.Connection, entries: Iterable[tuple[int, Encoded, int | None]]
    ) -> None:
        """Write entries in chunks, without events that are already there."""
        last = 0
        chunk: list[tuple[int, Encoded, int | None]] = []
        for entry in entries:
            chunk.append(entry)
            last = entry[0]
            if len(chunk) == 1000:
                self._apply_chunk(connection, chunk)
                chunk = []
        if chunk:
            self._apply_chunk(connection, chunk)
        if last:
            self.store.set_meta(connection, "last_position", str(last))

    @staticmethod
    def _apply_chunk(connection: sqlite3.Connection, chunk: list[tuple[int, Encoded, int | None]]) -> None:
        new = {id(item) for item in only_new(selecting(connection), [item for _, item, _ in chunk])}
        fresh = [(position, item) for position, item, _ in chunk if id(item) in new]
        if fresh:
            apply_events(connection.executemany, fresh, SCHEMA_VERSION, chunk[0][2])

    def _set_applied(self, connection: sqlite3.Connection, version: int, commit: bytes) -> None:
        self.store.set_meta(connection, APPLIED, str(version))
        self.store.set_meta(connection, "applied_tag", commit_tag(commit))
        self.store.set_meta(connection, "synced_seconds", str(self._clock.now_ns() / 1e9))

    def _note_shape(self, connection: sqlite3.Connection, configuration: dict[str, Any], columns: list[str]) -> None:
        version = int(configuration.get(VERSION_PROPERTY) or 1)
        check_version(version)
        self.store.set_meta(connection, "log_version", str(version))
        self.store.set_meta(connection, "log_columns", json.dumps(columns))

    def load_shape(self) -> None:
        """Load the schema version and columns of the table, which any process may have stored."""
        connection = self.store.connection()
        self.log_version = int(self.store.meta(connection, "log_version") or 1)
        check_version(self.log_version)
        columns = json.loads(self.store.meta(connection, "log_columns") or "[]")
        self.added_columns = tuple(name for name in columns if name == "recorded_at")


def _open_store(location: Location, clock: Clock) -> SqliteStore:
    """Open the local file, or create a new one when it is damaged or of another version."""
    path = location.projection
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        store = SqliteStore(path, clock=clock)
    except Exception as error:  # noqa: BLE001
        logger.warning("the local projection of %s cannot be used and is rebuilt: %s", location.uri, error)
    else:
        if store.version == SCHEMA_VERSION:
            return store
        store.close()
    for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        name.unlink(missing_ok=True)
    return SqliteStore(path, clock=clock)
