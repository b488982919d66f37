"""`penstock log`: query and maintain the event log. Needs no JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.log_filters import to_filter, to_nanoseconds, to_statuses
from penstock.cli.options import Settings, current_settings, with_project_options
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.cli.log_output import LogOutput
    from penstock.log_access import Filter, Log, Verification

app = typer.Typer(
    name="log",
    help="Query and maintain the event log.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most this many.")]
Offset = Annotated[int, typer.Option("--offset", min=0, help="Skip this many of the newest.")]
Builds = Annotated[
    list[str] | None,
    typer.Option("--build", metavar="ID", help="Only this build request, by its id or the start of it (repeatable)."),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="REF", help="Only this partition, or a pattern with * and ? (repeatable)."),
]
Types = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Only events of this type (repeatable).")
]
Labels = Annotated[
    list[str] | None, typer.Option("--job", metavar="LABEL", help="Only jobs of this label (repeatable).")
]
Runs = Annotated[list[str] | None, typer.Option("--run", metavar="ID", help="Only this job run (repeatable).")]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="From this time on: 2026-01-31, 2026-01-31T12:00, or 2h for two hours ago."
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Before this time, in the same format as --since.")
]
Statuses = Annotated[
    list[str] | None, typer.Option("--status", metavar="STATUS", help="Only this status (repeatable).")
]
Positions = Annotated[
    bool, typer.Option("--positions", help="Show each event's position, to continue from with --after.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep showing new events as they arrive.")]


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
    after: Annotated[int, typer.Option("--after", help="Only events after this position.")] = 0,
    positions: Positions = False,
    follow: Follow = False,
) -> None:
    """List events in the order in which they were written, oldest first."""
    chosen = to_filter(build, partition, event_type, job, run, since, until)
    with _open() as (log, output):
        chosen = _with_whole_ids(log, chosen)
        if follow:
            for entry in log.follow(chosen, after=after):
                output.line(entry, positions=positions)
        output.events(log.events(chosen, after=after, limit=limit), positions=positions)


@_command("tail")
def tail(
    build: Builds = None,
    partition: Partitions = None,
    event_type: Types = None,
    job: Labels = None,
    run: Runs = None,
    last: Annotated[int, typer.Option("--last", min=0, help="Show this many of the last events first.")] = 10,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", "-f", help="Keep showing new events as they arrive.")
    ] = True,
    positions: Positions = False,
) -> None:
    """Show the last events, and new ones as they arrive."""
    chosen = to_filter(build, partition, event_type, job, run, None, None)
    with _open() as (log, output):
        chosen = _with_whole_ids(log, chosen)
        head = log.head()
        for entry in log.last_events(last, chosen):
            output.line(entry, positions=positions)
            head = max(head, entry.position)
        if follow:
            for entry in log.follow(chosen, after=head):
                output.line(entry, positions=positions)


@_command("builds")
def builds(
    status: Statuses = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> None:
    """List build requests, newest first."""
    with _open() as (log, output):
        from penstock.model.status import BuildStatus

        output.builds(log.builds(limit=limit, offset=offset, statuses=to_statuses(BuildStatus, status)))


@_command("build")
def build(
    build_id: Annotated[str, typer.Argument(metavar="ID", help="A build request: its id, or the start of it.")],
) -> None:
    """Show one build request: its status, job runs and events."""
    with _open() as (log, output):
        found = log.build(log.find_build(build_id))
        if found is None:
            raise UsageError(f"the event log has no build request {build_id}", hint="see `penstock log builds`")
        output.build(found)


@_command("partitions")
def partitions(status: Statuses = None, limit: Limit = 50, offset: Offset = 0) -> None:
    """List partitions, most recently changed first."""
    with _open() as (log, output):
        from penstock.model.status import PartitionStatus

        output.partitions(log.partitions(limit=limit, offset=offset, statuses=to_statuses(PartitionStatus, status)))


@_command("partition")
def partition(
    ref: Annotated[str, typer.Argument(metavar="REF", help="A partition, such as dataset/key=value.")],
) -> None:
    """Show one partition: whether it is available, which builds work on it, and its events."""
    with _open() as (log, output):
        found = log.partition(ref)
        if found is None:
            raise UsageError(f"the event log has no partition {ref}", hint="see `penstock log partitions`")
        output.partition(found)


@_command("jobs")
def jobs(
    build: Annotated[
        str | None,
        typer.Option("--build", metavar="ID", help="Only jobs of this build request, by its id or the start of it."),
    ] = None,
    status: Statuses = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> None:
    """List job runs, newest first."""
    with _open() as (log, output):
        from penstock.model.status import JobStatus

        build = log.find_build(build) if build else build
        output.jobs(log.jobs(limit=limit, offset=offset, build=build, statuses=to_statuses(JobStatus, status)))


@_command("activity")
def activity(
    recent: Annotated[int, typer.Option("--recent", min=0, help="How many recent builds and partitions to show.")] = 10,
) -> None:
    """Summarize builds, partitions and job runs by status, and show the latest changes."""
    with _open() as (log, output):
        output.activity(log.activity(recent=recent))


@_command("info")
def info() -> None:
    """Show where the log is, its schema version and its size."""
    with _open() as (log, output):
        output.facts(asdict(log.info()))


@_command("copy")
def copy(
    copy_from: Annotated[str, typer.Argument(metavar="SRC_URI", help="The log to copy.")],
    copy_to: Annotated[
        str, typer.Argument(metavar="DST_URI", help="An empty log, or the target of an interrupted copy.")
    ],
) -> None:
    """Copy a log to another backend and verify the copy by count and checksum; run it again to resume."""
    from penstock.log_access import copy_between, find_log

    source, target = (find_log(uri, current_settings().project_dir) for uri in (copy_from, copy_to))
    _output().facts(asdict(copy_between(source, target)))


@_command("migrate")
def migrate(
    to: Annotated[
        int | None, typer.Option("--to", help="Migrate to this schema version, up or down (default: newest).")
    ] = None,
) -> None:
    """Migrate the log to another schema version, after a backup; builds may continue meanwhile."""
    with _open() as (log, output):
        output.facts(asdict(log.migrate(to)))


@_command("prune")
def prune(
    before: Annotated[
        str, typer.Option("--before", help="Remove events before this time: 2026-01-31, or 90d for 90 days ago.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how many events would be removed.")] = False,
) -> None:
    """Remove old events; the latest state of every build and partition stays."""
    limit = to_nanoseconds(before)
    with _open() as (log, output):
        output.facts(asdict(log.prune(limit, dry_run=dry_run)))


@_command("verify")
def verify() -> None:
    """Read every event, and compare states, indexes and storage with what follows from them; exit code 1 if they differ."""
    with _open() as (log, output):
        _report(output, log.verify())


@_command("repair")
def repair(
    remove_unreadable: Annotated[
        bool,
        typer.Option("--remove-unreadable", help="Also remove events that cannot be read. They are lost."),
    ] = False,
) -> None:
    """Rebuild indexes, states and the local projection from the events, then verify the log."""
    with _open() as (log, output):
        _report(output, log.repair(remove_unreadable=remove_unreadable))


@_command("compact")
def compact() -> None:
    """Make the log as small as it can be, and show its size before and after; builds may continue meanwhile."""
    with _open() as (log, output):
        output.facts(asdict(log.compact()))


@_command("rebuild-projection")
def rebuild_projection() -> None:
    """Build the states again from the events; for a Delta log, the local projection too."""
    with _open() as (log, output):
        log.rebuild_projection()
        output.facts(asdict(log.info()))


@_command("redact")
def redact(
    event_ids: Annotated[
        list[str], typer.Argument(metavar="EVENT_ID...", help="Events, as `log events --json` names them.")
    ],
) -> None:
    """Remove messages, reasons, configuration and graphs from events, in the log's files too; statuses and order stay."""
    with _open() as (log, output):
        output.facts(asdict(log.redact(event_ids)))


def _with_whole_ids(log: Log, chosen: Filter) -> Filter:
    """The filter with the whole ids of build requests that are named by their beginning."""
    return replace(chosen, build_request_ids=tuple(map(log.find_build, chosen.build_request_ids)))


def _report(output: LogOutput, found: Verification) -> None:
    output.facts({**asdict(found), "is_sound": found.is_sound})
    if not found.is_sound:
        raise typer.Exit(1)


@contextmanager
def _open() -> Iterator[tuple[Log, LogOutput]]:
    """Open the log of --event-log, or else the project's."""
    from penstock.log_access import open_log

    with open_log(_uri(current_settings())) as log:
        yield log, _output()


def _output() -> LogOutput:
    from penstock.cli.log_output import make_log_output

    return make_log_output(as_json=current_settings().as_json)


def _uri(settings: Settings) -> str:
    if settings.event_log is not None:
        from penstock.log_access import find_log

        return find_log(settings.event_log, settings.project_dir)
    from penstock.engine import open_project

    return open_project(settings.project_dir, target=settings.target, variables=settings.variables).event_log
