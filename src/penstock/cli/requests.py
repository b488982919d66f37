"""`penstock cancel`, `logs`, `invalidate` and `mark`: about builds of any process, and about what a person knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.opening import open_from_settings
from penstock.cli.options import current_settings
from penstock.cli.output import make_output
from penstock.errors import ConfigError, PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.cli.text_output import TextOutput
    from penstock.request_access import Requests

_ID = Annotated[
    str, typer.Argument(metavar="BUILD|JOB", help="A build request or a job run: its id, or the start of it.")
]


def cancel(
    request: _ID,
    reason: Annotated[str, typer.Option("--reason", help="Why; recorded in the event log.")] = "",
    wait: Annotated[
        float,
        typer.Option("--wait", metavar="SECONDS", min=0.0, help="Seconds to wait until it has ended; 0 = do not wait."),
    ] = 30.0,
) -> None:
    """Cancel a build, or one job run of it, in whichever process it runs; its work on Spark is stopped."""
    requests = _open()
    asked = requests.cancel(request, reason)
    ended = requests.wait(asked, wait) if wait else asked
    if wait and not ended.status.is_final:
        raise PenstockError(
            f"{ended.title} has not ended after {wait:g} s",
            hint="if its process is gone, the next `penstock run` of the project closes it (one of plain steps stays open); "
            "if your code does not end, end the process",
        )
    text = f"{ended.title}: {ended.status.name if wait else 'cancel requested'}"
    shown = {"id": ended.id, "build_request_id": ended.build_request_id, "status": ended.status.name}
    make_output(current_settings()).show(shown, lambda output: output.text(text))


def logs(request: _ID) -> None:
    """Show the log of a job run, or of all job runs of a build: what your code printed and logged, and each attempt."""
    requests = _open()
    lines = requests.read_logs(requests.find(request))
    width = max(len(line.label) for line in lines)

    def draw(output: TextOutput) -> None:
        for line in lines:
            output.plain(f"{line.time[11:23]}  {line.level:<7}  {line.label:<{width}}  {line.message}")

    make_output(current_settings()).show([line.to_json() for line in lines], draw)


_REF = Annotated[
    str,
    typer.Argument(metavar="REF", help="A dataset, or partitions of it: main.sales/date=2024-01-01..2024-01-31."),
]
_REASON = Annotated[str, typer.Option("--reason", help="Why; shown in the plan and recorded in the event log.")]


def invalidate(ref: _REF, reason: _REASON) -> None:
    """Make a dataset or partitions stale: the next run builds them again, and then what reads them. Needs no JVM."""
    settings = current_settings()
    name = open_from_settings(settings).marking.invalidate(ref, reason)
    shown = {"ref": name, "status": "invalidated", "reason": reason}
    make_output(settings).show(shown, lambda output: output.text(f"{name} is invalidated: {reason}"))


def mark(
    ref: _REF,
    status: Annotated[str, typer.Argument(metavar="available", help="The only status that can be set.")],
    reason: _REASON,
) -> None:
    """Take a computed table, or partitions, as they are for up to date: made elsewhere, or right after all."""
    if status != "available":
        raise UsageError(
            f"a dataset cannot be marked {status}", hint="write `penstock mark REF available --reason TEXT`"
        )
    settings = current_settings()
    with open_from_settings(settings) as engine:
        name = engine.marking.mark_available(ref, reason)
    shown = {"ref": name, "status": status, "reason": reason}
    make_output(settings).show(shown, lambda output: output.text(f"{name} is available: {reason}"))


def _open() -> Requests:
    from penstock.engine import open_project
    from penstock.request_access import open_requests, open_requests_of_log

    settings = current_settings()
    try:
        project = open_project(
            settings.project_dir, target=settings.target, variables=settings.variables, event_log=settings.event_log
        )
    except ConfigError:
        if settings.event_log is None:
            raise
        from penstock.log_access import find_log

        return open_requests_of_log(find_log(settings.event_log, settings.project_dir), Path(".penstock"))
    return open_requests(project)
