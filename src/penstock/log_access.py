"""Access to event logs for the command line, a web page or a notebook; they use nothing else of `eventlog`.

    with open_log(project.event_log) as log:
        log.builds(limit=20)

Results include every event whose append has returned. They are values; `*_json` turns them into JSON that is the same
on every backend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ConfigError, UsageError
from penstock.eventlog import projections
from penstock.eventlog.answers import (
    active_json,
    activity_json,
    build_json,
    entry_json,
    job_json,
    page_json,
    partition_json,
)
from penstock.eventlog.codec import to_fields, to_text
from penstock.eventlog.contract import EVERYTHING, Compaction, Entry, EventLog, Filter, Migration, Position
from penstock.eventlog.copy import CopyResult, copy_log
from penstock.eventlog.maintenance import UnreadableEvent, Verification, repair, verify
from penstock.eventlog.opening import open_event_log
from penstock.eventlog.prune import PruneResult, prune
from penstock.eventlog.redaction import RedactResult, redact_events, redact_texts
from penstock.eventlog.states import ActiveBuild, Activity, BuildPage, BuildState, JobState, PartitionState
from penstock.eventlog.tables import SCHEMA_VERSION
from penstock.model.event_log_uris import parse_event_log_uri
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

_SHORTEST_ID = 4
_MOST_NAMED = 5
_MOST_JOBS = 100_000


@dataclass(frozen=True, slots=True)
class BuildDetails:
    """A build request with its job runs and events."""

    build: BuildState
    jobs: tuple[JobState, ...]
    events: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class PartitionDetails:
    """A partition with the builds that are working on it and its events."""

    partition: PartitionState
    active_builds: tuple[ActiveBuild, ...]
    events: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class LogInfo:
    """Where a log is, the version of its tables, and its size."""

    uri: str
    schema_version: int
    newest_schema_version: int
    events: int
    head: int


@dataclass(frozen=True, slots=True)
class Log:
    """An open event log."""

    _log: EventLog

    def events(self, chosen: Filter = EVERYTHING, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Events after a position, in log order."""
        return self._log.read(Position(after), chosen, limit, strict=True)

    def last_events(self, limit: int, chosen: Filter = EVERYTHING) -> list[Entry]:
        """The last events, in log order."""
        return self._log.last(limit, chosen, strict=True)

    def follow(self, chosen: Filter = EVERYTHING, *, after: int = 0) -> Iterator[Entry]:
        """Events after a position, and new ones as they arrive; never ends."""
        return self._log.tail(Position(after), chosen)

    def head(self) -> int:
        """The position of the last event."""
        return self._log.head(strict=True)

    def builds(self, *, limit: int, offset: int = 0, statuses: Sequence[BuildStatus] = ()) -> BuildPage:
        """Build requests, newest first."""
        return projections.list_builds(self._log, limit=limit, offset=offset, statuses=statuses, strict=True)

    def find_build(self, text: str) -> str:
        """The id that a user means by its beginning; the text itself when no build request starts so."""
        if len(text) < _SHORTEST_ID or projections.build_state(self._log, text) is not None:
            return text
        found = projections.find_builds(self._log, text, limit=_MOST_NAMED + 1)
        if not found:
            return text
        if len(found) > 1:
            some = ", ".join(found[:_MOST_NAMED]) + (", ..." if len(found) > _MOST_NAMED else "")
            raise UsageError(f"several build requests start with {text}: {some}", hint="write more of the id")
        return found[0]

    def build(self, build_request_id: str) -> BuildDetails | None:
        """One build request; None when the log has none of this id."""
        found = projections.build_state(self._log, build_request_id, strict=True)
        if found is None:
            return None
        jobs = projections.list_jobs(self._log, build_request_id=build_request_id, limit=_MOST_JOBS)
        return BuildDetails(found, tuple(jobs), tuple(projections.events_of_build(self._log, build_request_id)))

    def partitions(
        self, *, limit: int, offset: int = 0, statuses: Sequence[PartitionStatus] = ()
    ) -> list[PartitionState]:
        """Partitions, most recently changed first."""
        return projections.list_partitions(self._log, limit=limit, offset=offset, statuses=statuses, strict=True)

    def partition(self, ref: str) -> PartitionDetails | None:
        """One partition; None when the log does not know it."""
        found = projections.partition_state(self._log, ref, strict=True)
        if found is None:
            return None
        active = projections.active_builds(self._log, ref)
        return PartitionDetails(found, tuple(active), tuple(projections.events_of_partition(self._log, ref)))

    def jobs(
        self, *, limit: int, offset: int = 0, build: str | None = None, statuses: Sequence[JobStatus] = ()
    ) -> list[JobState]:
        """Job runs, newest first, of one build request or of all."""
        return projections.list_jobs(
            self._log, limit=limit, offset=offset, build_request_id=build, statuses=statuses, strict=True
        )

    def activity(self, *, recent: int) -> Activity:
        """Counts by status, and the latest changes."""
        return projections.activity(self._log, recent=recent, strict=True)

    def info(self) -> LogInfo:
        """Where the log is, the version of its tables, and its size."""
        log = self._log
        events = projections.activity(log, recent=0, strict=True).events
        return LogInfo(log.uri, log.schema_version, SCHEMA_VERSION, events, log.head())

    def migrate(self, to: int | None = None) -> Migration:
        """Migrate the log to a schema version (default: newest), after a backup."""
        return self._log.migrate(to if to is not None else SCHEMA_VERSION)

    def verify(self) -> Verification:
        """Read every event and compare states and indexes with what follows from them."""
        return verify(self._log)

    def repair(self, *, remove_unreadable: bool = False) -> Verification:
        """Rebuild what follows from the events; return what is still wrong."""
        return repair(self._log, remove_unreadable=remove_unreadable)

    def rebuild_projection(self) -> None:
        """Build states, indexes and the local projection again from the events."""
        self._log.rebuild()

    def compact(self) -> Compaction:
        """Make the log as small as it can be."""
        return self._log.compact()

    def redact(self, event_ids: Sequence[str] = (), *, texts: Sequence[str] = ()) -> RedactResult:
        """Take the free text out of events, or replace some texts in all events; statuses and order stay."""
        found = redact_events(self._log, event_ids) if event_ids else RedactResult(())
        more = redact_texts(self._log, texts) if texts else RedactResult(())
        return RedactResult((*found.event_ids, *more.event_ids))

    def prune(self, before: int, *, dry_run: bool = False) -> PruneResult:
        """Remove events older than a time in nanoseconds; the latest states stay."""
        return prune(self._log, before, dry_run=dry_run)


def find_log(uri: str, start: Path | None = None) -> str:
    """The log that a URI of the command line names: a relative path is below the project, as it is in penstock.yml.

    The project is that of a folder (default: the working folder) or one above it. Outside a project, a SQLite file is
    below the folder, and a Delta table has an absolute path.
    """
    parsed = parse_event_log_uri(uri)
    if not parsed.form.is_file or parsed.path.startswith("/"):
        return uri
    from penstock.config.project_file import find_project_file

    folder = start or Path.cwd()
    try:
        return parsed.below(find_project_file(folder).parent).to_text()
    except ConfigError as error:
        if error.location is not None:
            raise
    return parsed.below(folder if parsed.scheme == "sqlite" else Path("/")).to_text()


@contextmanager
def open_log(uri: str) -> Iterator[Log]:
    """Open the event log at a URI, and close it after the block."""
    with open_event_log(uri) as log:
        yield Log(log)


def copy_between(source: str, target: str) -> CopyResult:
    """Copy a log to another URI and verify the copy; run it again to resume after an interruption."""
    with open_event_log(source) as before, open_event_log(target) as after:
        return copy_log(before, after)


__all__ = [
    "ActiveBuild",
    "Activity",
    "BuildDetails",
    "BuildPage",
    "BuildState",
    "Compaction",
    "CopyResult",
    "Entry",
    "Filter",
    "JobState",
    "Log",
    "LogInfo",
    "Migration",
    "PartitionDetails",
    "PartitionState",
    "PruneResult",
    "RedactResult",
    "UnreadableEvent",
    "Verification",
    "active_json",
    "activity_json",
    "build_json",
    "copy_between",
    "entry_json",
    "find_log",
    "job_json",
    "open_log",
    "page_json",
    "partition_json",
    "to_fields",
    "to_text",
]
