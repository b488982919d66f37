"""A log in a Delta table, on disk or in an object store, written with delta-rs: no JVM.

A writer has seen every commit up to version N and commits exactly version N + 1, or learns that another was faster and
looks again. So every event has its position when it is written, an id is never written twice, and the order is that of
commit. Queries are answered by a local projection.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.errors import EventLogError, StorageError
from penstock.eventlog.contract import STALENESS_SECONDS, AppendError, Position, Row, StorageTroubleError
from penstock.eventlog.delta_location import Location, to_location
from penstock.eventlog.delta_projection import Projection, ResyncNeededError, to_inline
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
_TURN_SECONDS = 0.02
"""How often a writer asks whether it is its turn: more often costs the others more than it gains this one."""
_KEEP_SECONDS = 60.0
"""So long the background keeps looking; the next query after that starts it again."""


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
        """Until then, by the monotonic clock, queries need not look for new commits: a cheap check for each of them."""
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
        """The local projection; for tests and maintenance."""
        return self._projection

    def table(self) -> Table:
        """The Delta table, opened with delta-rs; reads alone do not need it."""
        if self._opened is None:
            from penstock.eventlog.delta_table import Table

            self._opened = Table(self._location)
        return self._opened

    def select(self, sql: str, parameters: Sequence[object] = (), *, strict: bool = False) -> list[Row]:
        """Run a query of `projections`; strict looks for new commits first, others leave that to the background."""
        if strict:
            self._sync()
        elif time.monotonic() > self._fresh_until:
            self._refresh()
        return self._select(sql, parameters)

    def close(self) -> None:
        """Let go of the projection; the table needs no closing."""
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
            logger.info("the projection of %s is made anew: %s", self.uri, reason)
            self._resync()
            self._projection.catch_up()
        self._fresh_until = started + STALENESS_SECONDS / 2

    def _resync(self) -> None:
        table = self.table()
        table.load_or_create()
        self._projection.reload(table.handle)

    def _refresh(self) -> None:
        """Keep up with other writers from a thread of its own, so that a query does not wait for a file to be read."""
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
                # The next query that finds the projection too old tries itself and gets the error.
                logger.warning("the event log %s cannot be followed: %s", self.uri, error)
                return

    def _write(self, batch: Sequence[Encoded]) -> Position:
        from filelock import Timeout

        from penstock.eventlog.delta_rows import MAX_EVENTS_IN_COMMIT

        if len(batch) > MAX_EVENTS_IN_COMMIT:
            raise EventLogError(f"{len(batch)} events are too many for one append", hint="append them in parts")
        deadline = self._location.deadline_seconds
        try:
            # On one machine writers take turns: no attempt is wasted, and the lock ends with the process that holds it.
            with self._machine_lock().acquire(timeout=deadline, poll_interval=_TURN_SECONDS):
                return keep_trying(lambda: self._try_write(batch), _is_transient, deadline, 0.02)
        except (LostRaceError, Timeout, OSError, StorageError, StorageTroubleError) as error:
            raise AppendError(
                f"{len(batch)} events could not be written to {self.uri} within {deadline:g} s: {error}",
                [item.event for item in batch],
                hint="look for writers that never pause, or for trouble with the storage; then append the events again",
            ) from error
        finally:
            self._look_after()

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
        """Remove events for good; for `prune` only. Other readers notice and build their projection anew."""
        self._take_turns(lambda: self._try_remove(positions))

    def _try_remove(self, positions: Sequence[Position]) -> None:
        table = self.table()
        table.load_or_create()
        if not table.keep_without(positions):
            raise LostRaceError("other writers are faster")
        self._resync()

    def _look_after(self) -> None:
        """Checkpoint and compact when it is time; trouble with that never harms an append."""
        if self._opened is not None:
            self._opened.look_after()

    def _migrate(self, before: int, after: int) -> str | None:
        table = self.table()
        table.load_or_create()
        backup = table.back_up(before, self._clock.now_ns())

        def change() -> None:
            table.load_or_create()
            table.set_schema_version(before, after)

        self._take_turns(change)
        self._sync()
        return backup

    def _take_turns(self, work: Callable[[], None]) -> None:
        """Do something to the whole table while the writers of this machine wait; others are met by trying again."""
        deadline = self._location.deadline_seconds
        try:
            with self._machine_lock().acquire(timeout=deadline, poll_interval=_TURN_SECONDS):
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
    """Open or make the log of `delta:///folder`, `delta+s3://`, `delta+azure://` or `delta+gs://bucket/folder`."""
    return DeltaEventLog(to_location(uri), clock)
