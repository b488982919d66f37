"""`penstock plan` and `penstock run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.opening import open_from_settings
from penstock.cli.options import Settings, current_settings
from penstock.cli.output import make_output

if TYPE_CHECKING:
    from penstock.engine import Engine, PlanRequest
    from penstock.model.plan import Plan

Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select", "-s", help="Datasets to work on: name, +name, name+, tag:x, globs; comma = both, space = either."
    ),
]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", "-x", help="Datasets to leave out, same words.")]
FullRefresh = Annotated[
    str | None, typer.Option("--full-refresh", help="Rebuild these datasets from scratch (comma-separated).")
]
AllowHistoryLoss = Annotated[
    str | None,
    typer.Option(
        "--allow-history-loss",
        help="Let rebuilds of these tables lose rows whose files, or other sources, are gone (comma-separated).",
    ),
]
DropRetired = Annotated[
    bool, typer.Option("--drop-retired", help="Remove staging tables whose folder is gone from raw.")
]
FullRefreshAll = Annotated[bool, typer.Option("--full-refresh-all", help="Rebuild every selected dataset.")]


def plan(
    select: Select = None,
    exclude: Exclude = None,
    full_refresh: FullRefresh = None,
    full_refresh_all: FullRefreshAll = False,
    allow_history_loss: AllowHistoryLoss = None,
    drop_retired: DropRetired = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 0 when there is nothing to do, 2 when there is.")
    ] = False,
) -> None:
    """Show what a run would do, and why, per table. Writes no table and starts no JVM."""
    settings = current_settings()
    engine = open_from_settings(settings)
    made = engine.plan(
        engine.request(select, exclude, full_refresh, full_refresh_all, allow_history_loss, drop_retired)
    )
    settings.exit_code = 1 if made.has_problems else 2 if detailed_exitcode and made.has_work else 0
    make_output(settings).plan(made)
    if settings.exit_code:
        raise typer.Exit(settings.exit_code)


def run(
    select: Select = None,
    exclude: Exclude = None,
    full_refresh: FullRefresh = None,
    full_refresh_all: FullRefreshAll = False,
    allow_history_loss: AllowHistoryLoss = None,
    drop_retired: DropRetired = False,
    wait: Annotated[
        float, typer.Option("--wait", help="Seconds to wait for another run of this project; 0 = do not wait.")
    ] = 600.0,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Then keep applying change events as they come, until stopped.")
    ] = False,
    every: Annotated[
        float, typer.Option("--every", min=0.1, help="With --continuous: seconds between looks for new changes.")
    ] = 2.0,
) -> None:
    """Bring the tables up to date: do what the plan says, in order, side by side where possible."""
    settings = current_settings()
    with open_from_settings(settings) as engine:
        if continuous:
            engine.check_continuous()
            engine.is_long_lived = True
        request = engine.request(select, exclude, full_refresh, full_refresh_all, allow_history_loss, drop_retired)
        run_project(engine, settings, request, wait)
        if continuous:
            keep_running(engine, settings, every)


def keep_running(engine: Engine, settings: Settings, seconds: float) -> None:
    """Apply changes as they come; SIGTERM or Ctrl-C ends it cleanly, between two batches."""
    import signal
    import threading

    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    output = make_output(settings)
    output.text("Waiting for changes; stop with Ctrl-C.")
    engine.run_continuously(output.batch, stop, seconds)
    output.text("Stopped.")


def rebuild(
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="Tables, as name or database.name.")],
    allow_history_loss: Annotated[
        bool, typer.Option("--allow-history-loss", help="Let rows go whose raw files are gone.")
    ] = False,
) -> None:
    """Rebuild these tables aside and swap them in by one commit; what reads them follows with the next run."""
    names = ",".join(tables)
    may_lose = names if allow_history_loss else None
    settings = current_settings()
    with open_from_settings(settings) as engine:
        run_project(engine, settings, engine.request(tables, full_refresh=names, allow_history_loss=may_lose))


def run_project(engine: Engine, settings: Settings, request: PlanRequest | None = None, wait: float = 600.0) -> None:
    """Run, show progress and the result, and end with exit code 1 if anything failed."""
    from penstock.cli.progress import make_progress
    from penstock.telemetry.logs import LOGGER

    seen: list[Plan] = []
    with make_progress(settings) as progress:

        def on_plan(made: Plan) -> None:
            seen.append(made)
            progress.planned(made)

        result = engine.run(
            request,
            listeners=(progress,),
            on_plan=on_plan,
            on_wait=lambda holder: LOGGER.info("waiting for %s", holder),
            wait_seconds=wait,
        )
    settings.exit_code = int(result.has_failed)
    make_output(settings).run(seen[0] if seen else None, result)
    if settings.exit_code:
        raise typer.Exit(settings.exit_code)
