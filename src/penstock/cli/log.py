"""`penstock log`: what happened, what is available, and looking after the event log. Needs no JVM."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from penstock.cli.options import Settings, current_settings, with_project_options
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.cli.log_output import LogOutput
    from penstock.eventlog.contract import EventLog, Filter
    from penstock.model.status import BuildStatus, JobStatus, PartitionStatus

    Status = TypeVar("Status", BuildStatus, PartitionStatus, JobStatus)

app = typer.Typer(
    name="log",
    help="Look at the event log, and look after it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Show this many at most.")]
Builds = Annotated[list[str] | None, typer.Option("--build", help="Only this build request (again for more).")]
Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", help="Only this partition, or a pattern with * and ? (again for more)."),
]
Types = Annotated[list[str] | None, typer.Option("--type", help="Only events of this type (again for more).")]
Labels = Annotated[list[str] | None, typer.Option("--job", help="Only jobs of this label (again for more).")]
Runs = Annotated[list[str] | None, typer.Option("--run", help="Only this job run (again for more).")]
Since = Annotated[
    str | None, typer.Option("--since", help="From this time: 2026-01-31, 2026-01-31T12:00, or 2h ago as 2h.")
]
Until = Annotated[str | None, typer.Option("--until", help="Before this time, written as for --since.")]
Statuses = Annotated[list[str] | None, typer.Option("--status", help="Only this status (again for more).")]
Positions = Annotated[bool, typer.Option("--positions", help="Show each event's position, to go on from with --after.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on showing events as they come.")]

_AGO = re.compile(r"(\d+)([smhd])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _command(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        app.command(name)(with_project_options(function))
        return function

    return register


@_command("events")
def events(
    build: Builds = None,
    partition: Partitions = None,
    event_type: Types = None,
    job: Labels = None,
    run: Runs = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 100,
    after: Annotated[int, typer.Option("--after", help="Only events behind this position.")] = 0,
    positions: Positions = False,
    follow: Follow = False,
) -> None:
    """List events in the order in which they were written, the first ones first."""
    chosen = _to_filter(build, partition, event_type, job, run, since, until)
    with _open() as (log, output):
        from penstock.eventlog.contract import Position

        if follow:
            for entry in log.tail(Position(after), chosen):
                output.line(entry, positions=positions)
        output.events(log.read(Position(after), chosen, limit, strict=True), positions=positions)


@_command("tail")
def tail(
    build: Builds = None,
    partition: Partitions = None,
    event_type: Types = None,
    job: Labels = None,
    run: Runs = None,
    last: Annotated[int, typer.Option("--last", min=0, help="Show this many of the last events first.")] = 10,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", "-f", help="Go on as events come.")] = True,
    positions: Positions = False,
) -> None:
    """Show the last events, and new ones as they come."""
    chosen = _to_filter(build, partition, event_type, job, run, None, None)
    with _open() as (log, output):
        head = log.head(strict=True)
        for entry in log.last(last, chosen):
            output.line(entry, positions=positions)
            head = max(head, entry.position)
        if follow:
            for entry in log.tail(head, chosen):
                output.line(entry, positions=positions)


@_command("builds")
def builds(
    status: Statuses = None,
    limit: Limit = 50,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Leave out this many of the newest.")] = 0,
) -> None:
    """List build requests, the newest first."""
    with _open() as (log, output):
        from penstock.eventlog import projections
        from penstock.model.status import BuildStatus

        chosen = _to_statuses(BuildStatus, status)
        output.builds(projections.list_builds(log, limit=limit, offset=offset, statuses=chosen, strict=True))


@_command("build")
def build(build_id: Annotated[str, typer.Argument(metavar="ID", help="A build request.")]) -> None:
    """Show one build request: where it stands, its job runs and its events."""
    with _open() as (log, output):
        from penstock.eventlog import projections

        found = projections.build_state(log, build_id, strict=True)
        if found is None:
            raise UsageError(f"the event log has no build request {build_id}", hint="see `penstock log builds`")
        jobs = projections.list_jobs(log, build_request_id=build_id, limit=100_000)
        output.build(found, jobs, projections.events_of_build(log, build_id))


@_command("partitions")
def partitions(status: Statuses = None, limit: Limit = 50) -> None:
    """List partitions, the one that changed last first."""
    with _open() as (log, output):
        from penstock.eventlog import projections
        from penstock.model.status import PartitionStatus

        chosen = _to_statuses(PartitionStatus, status)
        output.partitions(projections.list_partitions(log, limit=limit, statuses=chosen, strict=True))


@_command("partition")
def partition(ref: Annotated[str, typer.Argument(metavar="REF", help="A partition, as dataset/key=value.")]) -> None:
    """Show one partition: whether it is available, who makes it, and its events."""
    with _open() as (log, output):
        from penstock.eventlog import projections

        found = projections.partition_state(log, ref, strict=True)
        if found is None:
            raise UsageError(f"the event log has no partition {ref}", hint="see `penstock log partitions`")
        output.partition(found, projections.active_builds(log, ref), projections.events_of_partition(log, ref))


@_command("jobs")
def jobs(
    build: Annotated[str | None, typer.Option("--build", help="Only jobs of this build request.")] = None,
    status: Statuses = None,
    limit: Limit = 50,
) -> None:
    """List job runs, the newest first."""
    with _open() as (log, output):
        from penstock.eventlog import projections
        from penstock.model.status import JobStatus

        chosen = _to_statuses(JobStatus, status)
        output.jobs(projections.list_jobs(log, limit=limit, build_request_id=build, statuses=chosen, strict=True))


@_command("activity")
def activity(
    recent: Annotated[int, typer.Option("--recent", min=0, help="How many recent ones to show.")] = 10,
) -> None:
    """Summarise: how many builds, partitions and job runs stand where, and what changed last."""
    with _open() as (log, output):
        from penstock.eventlog import projections

        output.activity(projections.activity(log, recent=recent, strict=True))


@_command("info")
def info() -> None:
    """Show where the log is, its schema version and its size."""
    with _open() as (log, output):
        from penstock.eventlog import projections
        from penstock.eventlog.tables import SCHEMA_VERSION

        output.facts(
            {
                "uri": log.uri,
                "schema_version": log.schema_version,
                "newest_schema_version": SCHEMA_VERSION,
                "events": projections.activity(log, recent=0, strict=True).events,
                "head": log.head(),
            }
        )


@_command("copy")
def copy(
    copy_from: Annotated[str, typer.Argument(metavar="SRC_URI", help="The log to copy.")],
    copy_to: Annotated[str, typer.Argument(metavar="DST_URI", help="An empty log, or one that a copy was begun in.")],
) -> None:
    """Copy a log to another backend, and check the copy by count and checksum; again to go on after an interruption."""
    from penstock.eventlog.copy import copy_log
    from penstock.eventlog.opening import open_event_log

    with open_event_log(copy_from) as before, open_event_log(copy_to) as after:
        done = copy_log(before, after)
    _output().facts({"events": done.events, "copied": done.copied, "checksum": done.checksum})


@_command("migrate")
def migrate(
    to: Annotated[
        int | None, typer.Option("--to", help="Go to this schema version, up or down (default: newest).")
    ] = None,
) -> None:
    """Bring the log to another schema version, after a backup; builds may go on meanwhile."""
    with _open() as (log, output):
        from penstock.eventlog.tables import SCHEMA_VERSION

        done = log.migrate(to if to is not None else SCHEMA_VERSION)
        output.facts({"before": done.before, "after": done.after, "backup": done.backup})


@_command("prune")
def prune(
    before: Annotated[
        str, typer.Option("--before", help="Remove events before this time: 2026-01-31, or 90d for ago.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many events would go.")] = False,
) -> None:
    """Remove old events; the latest state of every build and partition stays."""
    limit = to_nanoseconds(before)
    with _open() as (log, output):
        from penstock.eventlog.prune import prune as prune_log

        done = prune_log(log, limit, dry_run=dry_run)
        output.facts({"removed": done.removed, "kept": done.kept, "dry_run": done.dry_run})


@contextmanager
def _open() -> Iterator[tuple[EventLog, LogOutput]]:
    """The log that the user means: the one of --event-log, else the project's."""
    from penstock.eventlog.opening import open_event_log

    with open_event_log(_uri(current_settings())) as log:
        yield log, _output()


def _output() -> LogOutput:
    from penstock.cli.log_output import make_log_output

    return make_log_output(as_json=current_settings().as_json)


def _uri(settings: Settings) -> str:
    if settings.event_log is not None:
        return settings.event_log
    from penstock.engine import open_project

    return open_project(settings.project_dir, target=settings.target, variables=settings.variables).event_log


def to_nanoseconds(text: str) -> int:
    """Read a date, a time (UTC unless it says otherwise) or how long ago (`90d`, `2h`, `30m`, `10s`)."""
    ago = _AGO.match(text)
    if ago:
        from penstock.model.clock import SystemClock

        return SystemClock().now_ns() - int(ago[1]) * _SECONDS[ago[2]] * 1_000_000_000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{text!r} is not a time", hint="write 2026-01-31, 2026-01-31T12:00 or 2h for two hours ago"
        ) from error
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    delta = moment - epoch
    return (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1_000


def _to_filter(*given: Any) -> Filter:
    """A filter from what the options of `events` and `tail` say."""
    from penstock.eventlog.contract import Filter
    from penstock.model.events import EventType

    builds, partitions, types, labels, runs, since, until = given
    known = {kind.value: kind for kind in EventType}
    for name in types or ():
        if name not in known:
            raise UsageError(f"there is no event type {name!r}", hint=f"types: {', '.join(known)}")
    return Filter(
        event_types=tuple(known[name] for name in types or ()),
        build_request_ids=tuple(builds or ()),
        partitions=tuple(partitions or ()),
        job_labels=tuple(labels or ()),
        job_run_ids=tuple(runs or ()),
        since=to_nanoseconds(since) if since else None,
        until=to_nanoseconds(until) if until else None,
    )


def _to_statuses(kind: type[Status], names: list[str] | None) -> list[Status]:
    found = []
    for name in names or ():
        if name.upper() not in kind.__members__:
            known = ", ".join(status.name.lower() for status in kind if status.value)
            raise UsageError(f"there is no status {name!r}", hint=f"statuses: {known}")
        found.append(kind[name.upper()])
    return found
