"""What every event log does, on every backend: append, read from a position, tail, close.

Events are ordered by commit, never by timestamp or id, so no event ever appears before a position that a reader has
passed. How the engine writes:

    with open_event_log("sqlite:///path/to/log.db") as log:
        log.append([recorder.build(BuildStatus.RECEIVED), ...])        # returns when the events are durable
        log.read(after=position, filter=Filter(partitions=("sales.orders/*",)), strict=True)

`strict=True` sees every event whose append has returned, in any process: use it for claims. Without it a reader may be
up to a second behind other processes (never behind its own), so that remote logs can answer from a local projection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, NewType, Protocol, Self

from penstock.errors import EventLogError
from penstock.eventlog import tables
from penstock.model.events import Event, EventType

Position = NewType("Position", int)
"""A place in one log. Positions of the same log can be compared and stored; they survive compaction and pruning."""

START = Position(0)

STALENESS_SECONDS = 1.0
"""How far a read that is not strict may be behind other writers."""

Row = tuple[Any, ...]


class Entry(NamedTuple):
    """An event and its place in the log."""

    position: Position
    event: Event


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events to read: all given conditions must hold; within one condition, any of its values.

    A partition with `*` (any text) or `?` (one character) is a pattern. An event belongs to a partition if its payload
    names it: as its partition, as a target of the job or as requested by the build. Times are in nanoseconds, from
    `since` (inclusive) to `until` (exclusive).
    """

    event_types: tuple[EventType, ...] = ()
    build_request_ids: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    job_labels: tuple[str, ...] = ()
    job_run_ids: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None


EVERYTHING = Filter()


class AppendError(EventLogError):
    """Events could not be written; `events` are the ones of this call. Append them again."""

    code = "event_log_append"
    retryable = True

    def __init__(self, message: str, events: Sequence[Event], *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.events = tuple(events)


class MalformedEventError(EventLogError):
    """An event has a field that a log cannot store or read back; no event of the call was written."""

    code = "event_log_malformed"

    def __init__(self, event_type: str, field: str, wrong: str) -> None:
        super().__init__(
            f"an event of type {event_type} cannot be written: {field} {wrong}",
            hint="fix the code that makes the event; nothing was written",
        )
        self.event_type = event_type
        self.field = field


class NewerLogError(EventLogError):
    """The log was written by a newer version of penstock; nothing was read or changed."""

    code = "event_log_newer"


class StorageTroubleError(EventLogError):
    """The log's storage failed; a retry may help."""

    code = "event_log_storage"
    retryable = True


@dataclass(frozen=True, slots=True)
class Migration:
    """What a migration did: the versions before and after, and where the backup is."""

    before: int
    after: int
    backup: str | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Queries that see the log at one moment, and what is wrong with its files or tables."""

    select: Callable[[str, Sequence[object]], list[Row]]
    problems: list[str]


def still_there(uri: str) -> StorageTroubleError:
    """The error when redacted text cannot be removed yet."""
    return StorageTroubleError(
        f"the text is redacted in {uri}, but a process that is reading keeps its old pages on storage",
        hint="run the same again when that process has finished",
    )


@dataclass(frozen=True, slots=True)
class Compaction:
    """The size of a log before and after."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


def check_version(version: int) -> None:
    """Reject a log that a newer version of penstock wrote, before anything is read or changed."""
    if version > tables.SCHEMA_VERSION:
        raise NewerLogError(
            f"the event log has schema version {version}; this version of penstock supports up to {tables.SCHEMA_VERSION}",
            hint="upgrade penstock, or downgrade the log with the version that migrated it (`penstock log migrate --to`)",
        )


class EventLog(Protocol):
    """An append-only log of events with a total order."""

    @property
    def uri(self) -> str:
        """The log's URI without credentials."""
        ...

    @property
    def schema_version(self) -> int:
        """The version of the log's tables; a log keeps its version until `migrate` is called."""
        ...

    def migrate(self, to: int) -> Migration:
        """Migrate the log to a schema version, up or down, after a backup; writers may continue meanwhile."""
        ...

    def append(self, events: Sequence[Event]) -> Position:
        """Write the events, all or none and in this order, and return the log's head once they are durable.

        An event whose id is already in the log is not written again. Raises `AppendError` when the deadline passes, and
        `MalformedEventError` before anything is written.
        """
        ...

    def read(
        self,
        after: Position = START,
        filter: Filter = EVERYTHING,  # noqa: A002
        limit: int | None = None,
        *,
        strict: bool = False,
    ) -> list[Entry]:
        """The events after a position that match the filter, in log order."""
        ...

    def last(self, limit: int, filter: Filter = EVERYTHING, *, strict: bool = False) -> list[Entry]:  # noqa: A002
        """The last events that match the filter, in log order."""
        ...

    def head(self, *, strict: bool = False) -> Position:
        """The position of the last event; events appended from now on come after it."""
        ...

    def tail(
        self,
        after: Position | None = None,
        filter: Filter = EVERYTHING,  # noqa: A002
        *,
        poll_seconds: float = 0.2,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[Entry]:
        """Follow the log: yield events after a position (None: from now on) as they arrive, until `stop()` is true."""
        ...

    def select(self, sql: str, parameters: Sequence[object] = (), *, strict: bool = False) -> list[Row]:
        """Run a query of `projections` on the state tables; only for that module."""
        ...

    def remove(self, positions: Sequence[Position]) -> None:
        """Remove events permanently; only for `prune`, whose choice leaves builds and partitions as they are."""
        ...

    def replace(self, entries: Sequence[Entry]) -> None:
        """Give events a new payload at their positions; only for `redaction`, which calls `scrub` afterwards."""
        ...

    def scrub(self) -> None:
        """Remove from storage what `replace` has replaced; raises an error while a reader keeps it there."""
        ...

    def rebuild(self) -> None:
        """Build states, indexes and a local projection again from the events."""
        ...

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """The log at one moment, whatever others append meanwhile; only for `maintenance`."""
        ...

    def repair_storage(self) -> None:
        """Repair what the storage can repair by itself; only for `maintenance`."""
        ...

    def compact(self) -> Compaction:
        """Make the log as small as it can be; readers and writers may continue meanwhile."""
        ...

    def close(self) -> None:
        """Release files and connections; events already appended are durable without it."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
