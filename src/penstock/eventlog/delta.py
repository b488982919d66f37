"""A log in a Delta table, on disk or in an object store, written with delta-rs: no JVM.

A writer that has read every commit up to version N commits exactly version N + 1. If another writer was faster, it reads
that commit and tries again. So an event has its position when it is written, an id is never written twice, and events
are in commit order. Queries run on a local projection.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import EventLogError, StorageError
from penstock.eventlog.contract import (
    STALENESS_SECONDS,
    AppendError,
    Entry,
    Position,
    Row,
    Snapshot,
    StorageTroubleError,
    check_version,
    still_there,
)
from penstock.eventlog.deadlines import remaining, within
from penstock.eventlog.delta_commits import INDEX_BITS, to_inline
from penstock.eventlog.delta_location import Location, to_location
from penstock.eventlog.delta_projection import Marks, Projection, ResyncNeededError
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold import Select, Tables, only_new
from penstock.eventlog.fold_statements import SELECT_META
from penstock.eventlog.retry import LostRaceError, keep_trying
from penstock.eventlog.sql import SqlEventLog
from penstock.eventlog.store import SqliteStore, selecting
from penstock.eventlog.turns import Turns
from penstock.model.clock import Clock
from penstock.model.event_log_uris import EventLogUri

if TYPE_CHECKING:
    from penstock.eventlog.delta_table import Table

logger = logging.getLogger(__name__)

_REFRESH_SECONDS = 0.2
_CLOSE_SECONDS = 1.0
_KEEP_SECONDS = 60.0
"""How long the background thread keeps polling; the next query after that restarts it."""


_TRANSIENT = (LostRaceError, OSError, StorageError, StorageTroubleError)
Result = TypeVar("Result")


class DeltaEventLog(SqlEventLog):
    """A log in a Delta table, with a local projection for queries."""

    def __init__(self, location: Location, clock: Clock) -> None:
        super().__init__(location.uri, location.deadline_seconds)
        self._location = location
        self._clock = clock
        self._projection = Projection(location, clock)
        self._opened: Table | None = None
        folder = location.folder
        self._turns = Turns(folder / ".penstock.lock" if folder else location.projection.with_suffix(".lock"))
        self._refresher: threading.Thread | None = None
        self._refresher_lock = threading.Lock()
        self._closed = threading.Event()
        self._fresh_until = 0.0
        """Until then, by the monotonic clock, queries need not look for new commits."""
        try:
            with within(self.deadline_seconds):
                self._healing(self._open)
            check_version(self.schema_version)
        except BaseException:
            self.close()
            raise

    @property
    def schema_version(self) -> int:
        """The version of the log's table."""
        return self._projection.log_version

    @property
    def projection(self) -> Projection:
        """The local projection, for tests and maintenance."""
        return self._projection

    def table(self) -> Table:
        """The Delta table, opened with delta-rs; reads alone do not need it."""
        if self._opened is None:
            from penstock.eventlog.delta_table import Table

            self._opened = Table(self._location)
        return self._opened

    def select(self, sql: str, parameters: Sequence[object] = (), *, strict: bool = False) -> list[Row]:
        """Run a query of `projections`; a strict one looks for new commits first, others leave that to the background thread."""
        store = self._projection.store
        try:
            if strict:
                self._sync()
            elif time.monotonic() > self._fresh_until:
                self._refresh()
            return self._projection.store.select(sql, parameters)
        except sqlite3.Error as error:
            self._heal(store, error)
            return self._projection.store.select(sql, parameters)

    def head(self, *, strict: bool = False) -> Position:
        """The position of the last event."""
        if not strict:
            return super().head()
        # Asked before every claim, so without a detour where nothing has happened.
        marks = self._projection.known() or self._healing(self._catch_up)
        return Position(marks.head)

    def close(self) -> None:
        """Close the projection; the table needs no closing."""
        self._closed.set()
        thread = self._refresher
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_SECONDS)
            if thread.is_alive():
                return  # it waits for a store that does not answer, and closes the projection when it ends
        self._projection.close()

    def rebuild(self) -> None:
        """Rebuild the local projection from the table."""
        self._healing(self._resync)

    def _transaction(self) -> AbstractContextManager[Tables]:
        return self._projection.store.tables()

    def _open(self) -> None:
        if not self._projection.open():
            self._resync()
        self._sync()

    def _sync(self) -> None:
        """Follow the table, and take out what other writers removed from it."""
        if self._catch_up().pending:
            self._projection.settle()

    def _catch_up(self, *, patient: bool = True) -> Marks:
        started = time.monotonic()
        known = self._projection.known()
        if known is not None:
            self._fresh_until = started + STALENESS_SECONDS / 2
            return known
        with within(self.deadline_seconds):
            try:
                marks = self._projection.catch_up(patient=patient)
            except ResyncNeededError as reason:
                logger.info("the local projection of %s is rebuilt: %s", self.uri, reason)
                self._resync()
                marks = self._projection.catch_up(patient=patient)
        self._fresh_until = started + STALENESS_SECONDS / 2
        return marks

    def _resync(self) -> None:
        table = self.table()
        with within(self.deadline_seconds):
            table.forget()
            table.load_or_create()
            had_events = self._projection.marks().applied >= 0
            self._projection.reload(table.handle)
            if had_events:
                # They may have been replaced, and should not stay in free pages; another process may have the file locked.
                with suppress(sqlite3.OperationalError):
                    self._projection.store.compact()

    def _healing(self, work: Callable[[], Result]) -> Result:
        """Run work on the projection; after damage or where no cache can be written, run it again on another one."""
        store = self._projection.store
        try:
            return work()
        except sqlite3.Error as error:
            self._heal(store, error)
            return work()

    def _heal(self, store: SqliteStore, error: sqlite3.Error) -> None:
        while self._projection.replace_store(store, error):
            store = self._projection.store
            try:
                return self._resync()
            except sqlite3.Error as again:
                error = again
        raise StorageTroubleError(
            f"the local projection of {self.uri} failed: {error}",
            hint="another process may have locked it; it can be deleted when no process uses it",
        ) from error

    def _refresh(self) -> None:
        """Follow other writers in a background thread, so that queries do not wait for files to be read."""
        self._sync()
        with self._refresher_lock:
            if (self._refresher is None or not self._refresher.is_alive()) and not self._closed.is_set():
                self._refresher = threading.Thread(target=self._keep_fresh, name="penstock-event-log", daemon=True)
                self._refresher.start()

    def _keep_fresh(self) -> None:
        end = time.monotonic() + _KEEP_SECONDS
        try:
            while time.monotonic() < end and not self._closed.wait(_REFRESH_SECONDS):
                self._sync()
        except Exception as error:  # noqa: BLE001
            # The next query that finds the projection too old retries and raises the error.
            if not self._closed.is_set():
                logger.warning("cannot read new events of %s: %s", self.uri, error)
        finally:
            if self._closed.is_set():
                self._projection.close()

    def _write(self, batch: Sequence[Encoded]) -> Position:
        from penstock.eventlog.delta_rows import MAX_EVENTS_IN_COMMIT

        if len(batch) > MAX_EVENTS_IN_COMMIT:
            raise EventLogError(
                f"{len(batch)} events are too many for one append", hint="append them in smaller batches"
            )
        try:
            return self._in_turn(lambda: self._try_write(batch))
        except _TRANSIENT as error:
            raise AppendError(
                f"{len(batch)} events could not be written to {self.uri} within {self.deadline_seconds:g} s: "
                f"{self._location.describe(error)}",
                [item.event for item in batch],
                hint="check for other writers that never pause and for storage errors; then append the events again",
            ) from None
        finally:
            self._maintain()

    def _try_write(self, batch: Sequence[Encoded]) -> Position:
        store = self._projection.store
        try:
            return self._write_once(batch, store)
        except sqlite3.Error as error:
            self._heal(store, error)
            raise LostRaceError("the local projection was rebuilt") from error

    def _write_once(self, batch: Sequence[Encoded], store: SqliteStore) -> Position:
        from penstock.eventlog.delta_rows import schema_with, to_batch

        marks = self._catch_up(patient=False)
        projection, table = self._projection, self.table()
        projection.load_shape()
        check_version(projection.log_version)
        new = only_new(selecting(store.connection()), batch)
        if not new:
            return Position(marks.head)
        table.load_or_create()
        version = table.handle.version() + 1
        recorded_at = self._clock.now_ns()
        rows = to_batch(new, version, recorded_at, schema_with(projection.added_columns))
        with projection.fold_first(version, new, recorded_at):
            if not table.append(rows, to_inline(new, version, recorded_at)):
                raise LostRaceError("other writers are faster")
        return Position((version << INDEX_BITS) + len(new) - 1)

    def remove(self, positions: Sequence[Position]) -> None:
        """Remove events permanently; only for `prune`. Other readers notice, and take them out of their projection."""

        def remove() -> None:
            table = self.table()
            table.load_or_create()
            if not table.keep_without(positions):
                raise LostRaceError("other writers are faster")

        self._change_alone(remove)
        self._healing(self._sync)

    def replace(self, entries: Sequence[Entry]) -> None:
        """Give events a new payload; only for `redaction`."""

        def replace() -> None:
            table = self.table()
            table.load_or_create()
            if not table.replace(entries):
                raise LostRaceError("other writers are faster")

        self._change_alone(replace)
        self._healing(self._catch_up)

    def scrub(self) -> None:
        """Delete the files and commits of older versions, and write the local projection again."""

        def purge() -> None:
            table = self.table()
            table.load_or_create()
            table.purge(self._location.open_files())

        self._change_alone(purge)
        self._healing(self._catch_up)
        if not self._projection.store.compact():
            raise still_there(self.uri)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The local projection at one moment, compared with the table's version then."""
        from penstock.eventlog.delta_check import compare

        self._healing(self._sync)
        with self._snapshot() as select:
            applied = int(select(SELECT_META, ("applied_version",))[0][0])
            table = self.table().at(applied)
            yield Snapshot(select, compare(table, self._location.open_files(), select))

    def _snapshot(self) -> AbstractContextManager[Select]:
        return self._projection.store.snapshot()

    def repair_storage(self) -> None:
        """Open the table again; the projection is rebuilt by `rebuild`."""
        self.table().forget()

    def _compact(self) -> None:
        def compact() -> None:
            table = self.table()
            table.load_or_create()
            table.compact()
            table.handle.create_checkpoint()
            table.clean()

        self._change_alone(compact)

    def _size(self) -> tuple[int, int]:
        """Files of the latest version: older ones stay for a week, for readers of older versions."""
        table = self.table()
        table.load_or_create()
        return table.size()

    def _maintain(self) -> None:
        """Checkpoint and compact when due; an append never fails because of it."""
        if self._opened is not None:
            self._opened.maintain()

    def _migrate(self, before: int, after: int) -> str | None:
        table = self.table()
        table.load_or_create()
        backup = table.back_up(before, self._clock.now_ns())

        def change() -> None:
            table.load_or_create()
            table.set_schema_version(before, after)

        self._change_alone(change)
        self._sync()
        return backup

    def _change_alone(self, work: Callable[[], None]) -> None:
        """Change the whole table while the writers of this machine wait; retry when a writer elsewhere is faster."""
        try:
            self._in_turn(work)
        except _TRANSIENT as error:
            reason = self._location.describe(error)
            raise StorageTroubleError(
                f"{self.uri} could not be changed within {self.deadline_seconds:g} s: {reason}",
                hint="check for other writers that never pause and for storage errors, then run it again",
            ) from None

    def _in_turn(self, work: Callable[[], Result]) -> Result:
        """Writers of one machine take turns, so that no attempt is wasted; those of others are met in the table."""
        end = time.monotonic() + self.deadline_seconds
        with self._turns.take(remaining(self.deadline_seconds)):
            return keep_trying(work, lambda error: isinstance(error, _TRANSIENT), end - time.monotonic())


def open_log(uri: EventLogUri, clock: Clock) -> DeltaEventLog:
    """Open or create the log of `delta:///folder`, `delta+s3://`, `delta+azure://` or `delta+gs://bucket/folder`."""
    return DeltaEventLog(to_location(uri), clock)
