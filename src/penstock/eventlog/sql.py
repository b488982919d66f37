"""What all logs on SQL tables share: reading, filtering, tailing and grouping of appends.

A backend provides `select` and `_write`; this class implements the contract on top. It knows no database.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Self

from penstock.errors import UsageError
from penstock.eventlog.contract import (
    EVERYTHING,
    START,
    AppendError,
    Compaction,
    Entry,
    Filter,
    Migration,
    Position,
    Row,
    Snapshot,
)
from penstock.eventlog.deadlines import DeadlinePassedError, within
from penstock.eventlog.encoding import Encoded, encode
from penstock.eventlog.fold import Select, Tables, to_entry
from penstock.eventlog.fold_statements import SELECT_EVENTS, SELECT_META
from penstock.eventlog.group import GroupCommit
from penstock.eventlog.rewriting import rebuild_states, remove_events, replace_events
from penstock.eventlog.tables import SCHEMA_VERSION
from penstock.model.event_logs import DEADLINE_SECONDS
from penstock.model.events import Event

TAIL_BATCH = 1000


class SqlEventLog(ABC):
    """A log whose events and states can be queried in SQL."""

    def __init__(self, uri: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._uri = uri
        self.deadline_seconds = deadline_seconds
        """How long an operation may take before it fails."""
        self._group = GroupCommit(self._write)

    @property
    def uri(self) -> str:
        """The log's URI without credentials."""
        return self._uri

    @abstractmethod
    def select(self, sql: str, parameters: Sequence[object] = (), *, strict: bool = False) -> list[Row]:
        """Run a query of `projections` on the state tables."""

    @property
    def schema_version(self) -> int:
        """The version of the log's tables; another process may migrate them."""
        return int(self.select(SELECT_META, ("schema_version",), strict=True)[0][0])

    @abstractmethod
    def _migrate(self, before: int, after: int) -> str | None:
        """Back up the log and change its tables; return where the backup is."""

    def migrate(self, to: int = SCHEMA_VERSION) -> Migration:
        """Migrate the log to a schema version, up or down, after a backup; writers may continue meanwhile."""
        if not 1 <= to <= SCHEMA_VERSION:
            raise UsageError(f"unknown schema version {to}", hint=f"use a version from 1 to {SCHEMA_VERSION}")
        before = self.schema_version
        return Migration(before, to, self._migrate(before, to) if to != before else None)

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Tables]:
        """The tables in a transaction that holds the log's write lock."""

    def remove(self, positions: Sequence[Position]) -> None:
        """Remove events permanently; only for `prune`, whose choice leaves builds and partitions as they are."""
        remove_events(self.select, self._transaction, positions)

    def replace(self, entries: Sequence[Entry]) -> None:
        """Give events a new payload at their positions; only for `redaction`, which calls `scrub` afterwards."""
        replace_events(self._transaction, entries)

    def rebuild(self) -> None:
        """Build states and indexes again from the events."""
        with self._transaction() as tables:
            rebuild_states(tables)

    @abstractmethod
    def scrub(self) -> None:
        """Remove from storage what `replace` has replaced."""

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The log at one moment, and what is wrong with its files or tables."""
        problems = self.check_storage()
        with self._snapshot() as select:
            yield Snapshot(select, problems)

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[Select]:
        """Queries that see the tables at one moment."""

    def check_storage(self) -> list[str]:
        """What is wrong with the files or tables themselves."""
        return []

    @abstractmethod
    def repair_storage(self) -> None:
        """Repair what the storage can repair by itself."""

    def compact(self) -> Compaction:
        """Make the log as small as it can be; readers and writers may continue meanwhile."""
        files_before, bytes_before = self._size()
        self._compact()
        files_after, bytes_after = self._size()
        return Compaction(files_before, files_after, bytes_before, bytes_after)

    @abstractmethod
    def _compact(self) -> None:
        """Make the log as small as it can be."""

    @abstractmethod
    def _size(self) -> tuple[int, int]:
        """How many files the log has, and their bytes."""

    @abstractmethod
    def _write(self, batch: Sequence[Encoded]) -> Position:
        """Write a batch, all or none, without events that the log already has; return the head."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections."""

    def glob_condition(self, column: str, pattern: str) -> tuple[str, str]:
        """The condition that a column matches a pattern of `*` and `?`, and its parameter."""
        return f"{column} GLOB ?", pattern.replace("[", "[[]")

    def append(self, events: Sequence[Event]) -> Position:
        """Write the events, all or none and in this order, and return the log's head once they are durable."""
        encoded = [encode(event) for event in events]
        if not encoded:
            return self.head()
        with within(self.deadline_seconds, is_hard=True):
            try:
                return self._group.write(encoded)
            except DeadlinePassedError as error:
                raise AppendError(
                    f"{len(events)} events could not be written to {self.uri} within {self.deadline_seconds:g} s: {error}",
                    events,
                    hint="append the events again",
                ) from error

    def read(
        self,
        after: Position = START,
        filter: Filter = EVERYTHING,  # noqa: A002
        limit: int | None = None,
        *,
        strict: bool = False,
    ) -> list[Entry]:
        """The events after a position that match the filter, in log order."""
        where, parameters = self._where(after, filter)
        sql = f"{SELECT_EVENTS}{where} ORDER BY e.position"
        if limit is not None:
            sql += " LIMIT ?"
            parameters.append(limit)
        return [to_entry(row) for row in self.select(sql, parameters, strict=strict)]

    def last(self, limit: int, filter: Filter = EVERYTHING, *, strict: bool = False) -> list[Entry]:  # noqa: A002
        """The last events that match the filter, in log order."""
        where, parameters = self._where(START, filter)
        sql = f"{SELECT_EVENTS}{where} ORDER BY e.position DESC LIMIT ?"
        return [to_entry(row) for row in reversed(self.select(sql, [*parameters, limit], strict=strict))]

    def head(self, *, strict: bool = False) -> Position:
        """The position of the last event."""
        rows = self.select("SELECT value FROM penstock_meta WHERE name = 'last_position'", (), strict=strict)
        return Position(int(rows[0][0])) if rows else START

    def tail(
        self,
        after: Position | None = None,
        filter: Filter = EVERYTHING,  # noqa: A002
        *,
        poll_seconds: float = 0.2,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[Entry]:
        """Follow the log: yield events after a position (None: from now on) as they arrive, until `stop()` is true."""
        cursor = self.head(strict=True) if after is None else after
        while True:
            # The head is read first: every matching event up to it is in the result of the read that follows.
            head = self.head()
            entries = self.read(cursor, filter, TAIL_BATCH) if head > cursor else []
            yield from entries
            if len(entries) == TAIL_BATCH:
                cursor = entries[-1].position
                continue
            cursor = max(cursor, head, entries[-1].position if entries else START)
            if stop is not None and stop():
                return
            time.sleep(poll_seconds)

    def _where(self, after: Position, chosen: Filter) -> tuple[str, list[object]]:
        conditions: list[str] = []
        parameters: list[object] = []
        if after > START:
            conditions.append("e.position > ?")
            parameters.append(after)
        for column, values in (
            ("e.event_type", [kind.value for kind in chosen.event_types]),
            ("e.build_request_id", chosen.build_request_ids),
            ("e.job_label", chosen.job_labels),
            ("e.job_run_id", chosen.job_run_ids),
        ):
            if values:
                conditions.append(f"{column} IN ({', '.join('?' * len(values))})")
                parameters.extend(values)
        join = ""
        if len(chosen.partitions) == 1 and not is_pattern(chosen.partitions[0]):
            join = " JOIN penstock_event_partition p ON p.position = e.position"
            conditions.append("p.partition_ref = ?")
            parameters.append(chosen.partitions[0])
        elif chosen.partitions:
            refs, values = self._partition_condition(chosen.partitions)
            conditions.append(refs)
            parameters.extend(values)
        for operator, limit in ((">=", chosen.since), ("<", chosen.until)):
            if limit is not None:
                conditions.append(f"e.timestamp {operator} ?")
                parameters.append(limit)
        return (f"{join} WHERE {' AND '.join(conditions)}" if conditions else ""), parameters

    def _partition_condition(self, partitions: Sequence[str]) -> tuple[str, list[str]]:
        exact = [ref for ref in partitions if not is_pattern(ref)]
        patterns = [self.glob_condition("partition_ref", ref) for ref in partitions if is_pattern(ref)]
        either = [f"partition_ref IN ({', '.join('?' * len(exact))})"] if exact else []
        either += [condition for condition, _ in patterns]
        sql = f"e.position IN (SELECT position FROM penstock_event_partition WHERE {' OR '.join(either)})"  # noqa: S608
        return sql, [*exact, *(value for _, value in patterns)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def is_pattern(partition: str) -> bool:
    """Whether a partition in a filter is a pattern."""
    return "*" in partition or "?" in partition
