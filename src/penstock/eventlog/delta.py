"""A log in a Delta table, on disk or in an object store, written with delta-rs: no JVM.

A writer that has read every commit up to version N commits exactly version N + 1. If another writer was faster, it reads
that commit and tries again. So an event has its position when it is written, an id is never written twice, and events
are in commit order. Queries run on a local projection.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.errors import EventLogError, StorageError
from penstock.eventlog.contract import STALENESS_SECONDS, AppendError, Position, Row, StorageTroubleError
from penstock.eventlog.delta_commits import to_inline
from penstock.eventlog.delta_location import Location, to_location
from penstock.eventlog.delta_projection import Projection, ResyncNeededError
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold import only_new
from penstock.eventlog.retry import LostRaceError, keep_trying
from penstock.eventlog.sql import SqlEventLog
from penstock.eventlog.store import selecting
from penstock.model.clock import Clock

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from penstock.eventlog.delta_table import Table

logger = logging.getLogger(__name__)

_REFRESH_SECONDS = 0.2
_LOCK_POLL_SECONDS = 0.02
"""How often a waiting writer polls the lock: polling more often would slow down the others."""
_KEEP_SECONDS = 60.0
"""How long the background thread keeps polling; the next query after that restarts it."""


class DeltaEventLog(SqlEventLog):
    """A log in a Delta table, with a local projection for queries."""

    def __init__(self, location: Location, clock: Clock) -> None:
        super().__init__(location.uri)
        self._location = location
        self._clock = clock
        self._projection = Projection(location, clock)
        self._opened: Table | None = None
        self._lock_file: BaseFileLock | None = None
        self._refresher: threading.Thread | None = None
        self._refresher_lock = threading.Lock()
        self._closed = threading.Event()
        self._select = self._projection.store.select
        self._fresh_until = 0.0
        """Until then, by the monotonic clock, queries need not look for new commits."""
        try:
            if not self._projection.open():
                self._resync()
            self._sync()
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
        if strict:
            self._sync()
        elif time.monotonic() > self._fresh_until:
            self._refresh()
        return self._select(sql, parameters)

    def close(self) -> None:
        """Close the projection; the table needs no closing."""
        self._closed.set()
        thread = self._refresher
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._projection.store.close()

    def _sync(self) -> None:
        started = time.monotonic()
        try:
            self._projection.catch_up()
        except ResyncNeededError as reason:
            logger.info("the local projection of %s is rebuilt: %s", self.uri, reason)
            self._resync()
            self._projection.catch_up()
        self._fresh_until = started + STALENESS_SECONDS / 2

    def _resync(self) -> None:
        table = self.table()
        table.load_or_create()
        self._projection.reload(table.handle)

    def _refresh(self) -> None:
        """Follow other writers in a background thread, so that queries do not wait for files to be read."""
        self._sync()
        with self._refresher_lock:
            if (self._refresher is None or not self._refresher.is_alive()) and not self._closed.is_set():
                self._refresher = threading.Thread(target=self._keep_fresh, name="penstock-event-log", daemon=True)
                self._refresher.start()

    def _keep_fresh(self) -> None:
        end = time.monotonic() + _KEEP_SECONDS
        while time.monotonic() < end and not self._closed.wait(_REFRESH_SECONDS):
            try:
                self._sync()
            except Exception as error:  # noqa: BLE001
                # The next query that finds the projection too old retries and raises the error.
                logger.warning("cannot read new events of %s: %s", self.uri, error)
                return

    def _write(self, batch: Sequence[Encoded]) -> Position:
        from filelock import Timeout

        from penstock.eventlog.delta_rows import MAX_EVENTS_IN_COMMIT

        if len(batch) > MAX_EVENTS_IN_COMMIT:
            raise EventLogError(
                f"{len(batch)} events are too many for one append", hint="append them in smaller batches"
            )
        deadline = self._location.deadline_seconds
        try:
            # Writers on one machine use a lock, so that no attempt is wasted; it ends with the process that holds it.
            with self._machine_lock().acquire(timeout=deadline, poll_interval=_LOCK_POLL_SECONDS):
                return keep_trying(lambda: self._try_write(batch), _is_transient, deadline, 0.02)
        except (LostRaceError, Timeout, OSError, StorageError, StorageTroubleError) as error:
            raise AppendError(
                f"{len(batch)} events could not be written to {self.uri} within {deadline:g} s: {error}",
                [item.event for item in batch],
                hint="check for other writers that never pause and for storage errors; then append the events again",
            ) from error
        finally:
            self._maintain()

    def _try_write(self, batch: Sequence[Encoded]) -> Position:
        from penstock.eventlog.delta_rows import schema_with, to_batch

        self._sync()
        projection, table = self._projection, self.table()
        projection.load_shape()
        new = only_new(selecting(projection.store.connection()), batch)
        if not new:
            return self.head()
        table.load_or_create()
        version = table.handle.version() + 1
        recorded_at = self._clock.now_ns()
        rows = to_batch(new, version, recorded_at, schema_with(projection.added_columns))
        with projection.fold_first(version, new, recorded_at):
            if not table.append(rows, to_inline(new, version, recorded_at)):
                raise LostRaceError("other writers are faster")
        return self.head()

    def remove(self, positions: Sequence[Position]) -> None:
        """Remove events permanently; only for `prune`. Other readers notice and rebuild their projection."""
        self._change_alone(lambda: self._try_remove(positions))

    def _try_remove(self, positions: Sequence[Position]) -> None:
        table = self.table()
        table.load_or_create()
        if not table.keep_without(positions):
            raise LostRaceError("other writers are faster")
        self._resync()

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
        deadline = self._location.deadline_seconds
        try:
            with self._machine_lock().acquire(timeout=deadline, poll_interval=_LOCK_POLL_SECONDS):
                keep_trying(work, _is_transient, deadline, 0.02)
        except (LostRaceError, OSError) as error:
            raise StorageTroubleError(f"{self.uri} could not be changed within {deadline:g} s: {error}") from error

    def _machine_lock(self) -> BaseFileLock:
        if self._lock_file is None:
            from filelock import FileLock

            folder = self._location.folder
            path = folder / ".penstock.lock" if folder is not None else self._location.projection.with_suffix(".lock")
            self._lock_file = FileLock(path, thread_local=False)
        return self._lock_file


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, LostRaceError | OSError | StorageError | StorageTroubleError)


def open_log(uri: str, clock: Clock) -> DeltaEventLog:
    """Open or create the log of `delta:///folder`, `delta+s3://`, `delta+azure://` or `delta+gs://bucket/folder`."""
    return DeltaEventLog(to_location(uri), clock)
