"""The local projection of a Delta log: SQLite tables, updated from the table's new commits.

Queries run here, as fast as on a SQLite log. The processes of a machine share the file, and it can be deleted at any
time: the table is the source of truth. The applied version is written in the same transaction as the rows.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import EventLogError
from penstock.eventlog.contract import Position
from penstock.eventlog.deadlines import DeadlinePassedError, extend, remaining
from penstock.eventlog.delta_commits import (
    INDEX_BITS,
    Found,
    commit_name,
    commit_tag,
    from_ranges,
    read_commit,
    to_ranges,
    to_version,
)
from penstock.eventlog.delta_location import Location
from penstock.eventlog.delta_quiet import Quiet
from penstock.eventlog.delta_store import open_store, replace_store
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold import apply_events, only_new
from penstock.eventlog.retry import LostRaceError
from penstock.eventlog.rewriting import remove_events
from penstock.eventlog.store import SqliteStore, selecting
from penstock.eventlog.tables import ALL_TABLES, SCHEMA_VERSION
from penstock.model.clock import Clock

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

_MARKS = (
    "SELECT name, value FROM penstock_meta WHERE name IN "
    "('applied_version', 'applied_tag', 'last_position', 'pending_removal')"
)
_COMMITS = 100
_CHUNK = 1000
_TRUSTED_SECONDS = 7 * 86_400
"""For this long the commits after the applied one are certainly still there (logs are kept for 30 days)."""


class ResyncNeededError(Exception):
    """The projection cannot be updated commit by commit and must be rebuilt."""


class Marks(NamedTuple):
    """How far the projection is."""

    applied: int
    """The last table version whose events are in the projection; -1 when there is none."""
    tag: str
    """What the commit of that version was."""
    head: int
    pending: str
    """Positions of events that a commit removed and that are still here, as text."""


class Projection:
    """Keeps the local tables up to date; safe to use from many threads and processes."""

    def __init__(self, location: Location, clock: Clock) -> None:
        self._location = location
        self._clock = clock
        self._files = location.open_files()
        self.store = open_store(location, clock)
        self._replaced: list[SqliteStore] = []
        self._lock = threading.Lock()
        self._quiet: Quiet[Marks] = Quiet(location.folder)
        self._seen: tuple[int, str | None] | None = None
        """The last applied version that was compared with the table, and the stamp of its commit then."""
        self.log_version = SCHEMA_VERSION
        """The schema version of the table."""
        self.added_columns: tuple[str, ...] = ()
        """Columns that the table has beyond those of version 1."""

    def marks(self) -> Marks:
        """How far the projection is, at one moment."""
        found: dict[str, str] = dict(self.store.select(_MARKS))
        return Marks(
            int(found.get("applied_version", -1)),
            found.get("applied_tag", ""),
            int(found.get("last_position", 0)),
            found.get("pending_removal", ""),
        )

    def open(self) -> bool:
        """Use what the file has; False when it does not match the table, and must be rebuilt."""
        applied = self.marks().applied
        synced = float(self.store.meta(self.store.connection(), "synced_seconds") or 0)
        if applied < 0 or self._clock.now_ns() / 1e9 - synced > _TRUSTED_SECONDS:
            return False
        self.load_shape()
        return True

    def replace_store(self, failed: SqliteStore, error: sqlite3.Error) -> bool:
        """Use another store after one failed; it may be empty. False when the same one should be tried again."""
        with self._one_thread():
            if self.store is not failed:
                return True
            store = replace_store(self._location, self._clock, failed, error)
            if store is None:
                return False
            self._replaced.append(failed)  # other threads may still use it
            self.store = store
            return True

    def close(self) -> None:
        """Close the local files."""
        for store in (self.store, *self._replaced):
            store.close()

    def known(self) -> Marks | None:
        """The marks, if nothing has happened since this thread last caught up; None when it must do that again."""
        try:
            look = self._quiet.look(self.store)
        except sqlite3.Error:
            return None
        found = self._quiet.found(look)
        if found is None:
            return None
        before, marks = found
        folder = self._quiet.look_at_folder()
        if folder is None or folder != before:
            name = commit_name(marks.applied)
            is_same = self._seen == (marks.applied, self._files.stamp(name))
            if not is_same or self._files.exists(commit_name(marks.applied + 1)):
                return None
            self._quiet.note(look, folder, marks)
        return marks

    def catch_up(self, *, patient: bool = False) -> Marks:
        """Apply every new commit; what another process applied meanwhile is not applied again.

        With patience, the deadline is for each part of what is new, not for all of it.
        """
        look, folder, marks = self._quiet.look(self.store), self._quiet.look_at_folder(), self.marks()
        self._check_applied(marks)
        if not self._files.exists(commit_name(marks.applied + 1)):
            self._quiet.note(look, folder, marks)
            return marks
        with self._one_thread():
            while self._files.exists(commit_name(self.marks().applied + 1)):
                with self.store.transaction() as connection:
                    for _ in range(_COMMITS):
                        if not self._apply_next(connection):
                            break
                if patient:
                    extend(self._location.deadline_seconds)
            self.load_shape()
        return self.marks()

    def settle(self) -> None:
        """Take out events that other writers removed from the table."""
        pending = self.marks().pending
        if not pending:
            return
        remove_events(self.store.select, self.store.tables, [Position(each) for each in from_ranges(pending)])
        with self.store.tables() as tables:
            tables.executemany("DELETE FROM penstock_meta WHERE name = 'pending_removal' AND value = ?", [(pending,)])

    @contextmanager
    def fold_first(self, version: int, items: Sequence[Encoded], recorded_at: int) -> Iterator[None]:
        """Fold events that are about to be committed as this version; the block commits them to the table.

        Events that cannot be folded are never committed, and a commit that fails is not folded. When the block has
        committed and what follows fails, the commit is read from the table like that of any other writer.
        """
        entries = [((version << INDEX_BITS) + index, item, recorded_at) for index, item in enumerate(items)]
        with self.store.transaction() as connection:
            if int(self.store.meta(connection, "applied_version") or -1) != version - 1:
                raise LostRaceError("other writers are faster")
            try:
                self._apply_entries(connection, entries)
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:
                raise EventLogError(
                    f"{len(items)} events cannot be folded, so they were not written: {error}",
                    hint="this is a bug in penstock: please report it",
                ) from error
            yield
            self._set_applied(connection, version, self._read(commit_name(version)) or b"")

    def reload(self, table: DeltaTable) -> None:
        """Rebuild the projection from the table's snapshot."""
        from penstock.eventlog.delta_rows import from_table
        from penstock.eventlog.delta_table import in_order

        version = table.version()
        with self._one_thread(), self.store.transaction() as connection:
            for name in ALL_TABLES:
                if name != "penstock_meta":
                    connection.execute(f"DELETE FROM {name}")  # noqa: S608
            connection.execute("DELETE FROM penstock_meta WHERE name <> 'schema_version'")
            for paths in in_order(table):
                self._apply_entries(connection, from_table(self._read_rows(paths)))
                extend(self._location.deadline_seconds)
            columns = [field.name for field in table.schema().fields]
            self._note_shape(connection, to_version(table.metadata().configuration), columns)
            self._set_applied(connection, version, self._read(commit_name(version)) or b"")
        self.load_shape()

    @contextmanager
    def _one_thread(self) -> Iterator[None]:
        """Let one thread of this process update the file, and the others wait for it until their deadline."""
        if not self._lock.acquire(timeout=remaining(threading.TIMEOUT_MAX)):
            raise self._location.trouble("cannot be read", DeadlinePassedError())
        try:
            yield
        finally:
            self._lock.release()

    def _check_applied(self, marks: Marks) -> None:
        """Make sure that the commit that was applied last is still there: not cleaned up, not of another table."""
        if marks.applied < 0:
            return
        stamp = self._files.stamp(commit_name(marks.applied))
        if (marks.applied, stamp) == self._seen:
            return
        if commit_tag(self._read(commit_name(marks.applied)) or b"") != marks.tag:
            raise ResyncNeededError("its commits were cleaned up, or the table was replaced")
        self._seen = marks.applied, stamp

    def _read(self, name: str) -> bytes | None:
        try:
            return self._files.read(name)
        except FileNotFoundError:
            return None

    def _apply_next(self, connection: sqlite3.Connection) -> bool:
        """Apply the next commit; False when there is none."""
        version = int(self.store.meta(connection, "applied_version") or -1) + 1
        content = self._read(commit_name(version))
        if content is None:
            return False
        commit = read_commit(content, version)
        if commit.shape is not None:
            self._note_shape(connection, *commit.shape)
        if commit.has_removed:
            self._note_removed(connection, commit.removed)
        elif commit.inline is not None:
            self._apply_entries(connection, commit.inline)
        elif any(add.get("deletionVector") for add in commit.adds):
            raise ResyncNeededError("rows of a file were deleted")
        elif commit.adds:
            from penstock.eventlog.delta_rows import from_table

            self._apply_entries(connection, from_table(self._read_rows([add["path"] for add in commit.adds])))
        self._set_applied(connection, version, content)
        return True

    def _read_rows(self, paths: Sequence[str]) -> pa.Table:
        from penstock.eventlog.delta_rows import read_rows

        try:
            return read_rows(self._files, paths)
        except FileNotFoundError:
            raise ResyncNeededError("a data file of an older commit was removed") from None

    def _note_removed(self, connection: sqlite3.Connection, removed: list[int] | None) -> None:
        """Remember which events to take out: an append must not wait for that."""
        if removed is None:
            raise ResyncNeededError("events were removed or replaced")
        before = from_ranges(self.store.meta(connection, "pending_removal") or "[]")
        pending = to_ranges([*before, *removed])
        if pending is None:
            raise ResyncNeededError("many events were removed")
        self.store.set_meta(connection, "pending_removal", pending)

    def _apply_entries(self, connection: sqlite3.Connection, entries: Iterable[Found]) -> None:
        """Write entries in chunks, without events that are already there."""
        last = 0
        found = iter(entries)
        while chunk := list(islice(found, _CHUNK)):
            new = {id(item) for item in only_new(selecting(connection), [item for _, item, _ in chunk])}
            fresh = [(position, item) for position, item, _ in chunk if id(item) in new]
            if fresh:
                apply_events(connection.executemany, fresh, SCHEMA_VERSION, chunk[0][2])
            last = chunk[-1][0]
        if last:
            self.store.set_meta(connection, "last_position", str(last))

    def _set_applied(self, connection: sqlite3.Connection, version: int, commit: bytes) -> None:
        self.store.set_meta(connection, "applied_version", str(version))
        self.store.set_meta(connection, "applied_tag", commit_tag(commit))
        self.store.set_meta(connection, "synced_seconds", str(self._clock.now_ns() / 1e9))

    def _note_shape(self, connection: sqlite3.Connection, version: int, columns: list[str]) -> None:
        self.store.set_meta(connection, "log_version", str(version))
        self.store.set_meta(connection, "log_columns", json.dumps(columns))

    def load_shape(self) -> None:
        """Load the schema version and columns of the table, which any process may have stored."""
        connection = self.store.connection()
        self.log_version = int(self.store.meta(connection, "log_version") or 1)
        columns = json.loads(self.store.meta(connection, "log_columns") or "[]")
        self.added_columns = tuple(name for name in columns if name == "recorded_at")
