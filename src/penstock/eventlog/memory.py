"""A log in the memory of this process, `memory://`, for tests: the same tables and results, gone when it is closed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from penstock.eventlog.contract import Position, Row
from penstock.eventlog.encoding import Encoded
from penstock.eventlog.fold import Select, Tables
from penstock.eventlog.sql import SqlEventLog
from penstock.eventlog.store import SqliteStore
from penstock.model.clock import Clock
from penstock.model.event_log_uris import EventLogUri


class MemoryEventLog(SqlEventLog):
    """A log that only this process sees."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("memory://")
        self.store = SqliteStore(None, clock=clock)

    def select(self, sql: str, parameters: Sequence[object] = (), *, strict: bool = False) -> list[Row]:  # noqa: ARG002
        """Run a query of `projections`."""
        return self.store.select(sql, parameters)

    def _migrate(self, before: int, after: int) -> str | None:
        return self.store.migrate(before, after)

    def _transaction(self) -> AbstractContextManager[Tables]:
        return self.store.tables()

    def _write(self, batch: Sequence[Encoded]) -> Position:
        return self.store.append(batch)

    def scrub(self) -> None:
        """There is no storage."""

    def _snapshot(self) -> AbstractContextManager[Select]:
        return self.store.snapshot()

    def repair_storage(self) -> None:
        """There is none."""

    def _compact(self) -> None:
        """There is nothing to make smaller."""

    def _size(self) -> tuple[int, int]:
        return 0, 0

    def close(self) -> None:
        """Discard everything."""
        self.store.close()


def open_log(uri: EventLogUri, clock: Clock) -> MemoryEventLog:  # noqa: ARG001
    """Create an empty log."""
    return MemoryEventLog(clock)
