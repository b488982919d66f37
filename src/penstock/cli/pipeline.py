"""`penstock plan`, `penstock run` and `penstock rebuild`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.opening import open_from_settings
from penstock.cli.options import Settings, current_settings
from penstock.cli.output import make_output
from penstock.cli.signals import format_stop
from penstock.errors import StoppedError

if TYPE_CHECKING:
    from penstock.engine import Engine, PlanRequest
    from penstock.model.plan import Item, Plan

Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        "-s",
        metavar="SELECTOR",
        help="Datasets to include: name, +name, name+, tag:x, path:x or a glob; space = union, comma = intersection.",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", "-x", metavar="SELECTOR", help="Datasets to leave out; same selector syntax."),
]
FullRefresh = Annotated[
    list[str] | None,
    typer.Option("--full-refresh", metavar="NAME,...", help="Rebuild these datasets from scratch (comma-separated)."),
]
AllowHistoryLoss = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-history-loss",
        metavar="NAME,...",
        help="Allow rebuilds of these tables to lose rows whose files or other sources are gone (comma-separated).",
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0.0,
        help="Seconds to wait while another process runs this project; 0 = do not wait.",
    ),
]
DropRetired = Annotated[bool, typer.Option("--drop-retired", help="Drop staging tables whose raw folder is gone.")]
FullRefreshAll = Annotated[bool, typer.Option("--full-refresh-all", help="Rebuild every selected dataset.")]


def plan(
    select: Select = None,
    exclude: Exclude = None,
    full_refresh: FullRefresh = None,
    full_refresh_all: FullRefreshAll = False,
    allow_history_loss: AllowHistoryLoss = None,
    drop_retired: DropRetired = False,
    detailed_exitcode: Annotated[
        bool,
        typer.Option(
            "--detailed-exitcode",
            help="Exit with 0 when there is nothing to do, with 2 when there is work, and with 1 when anything is wrong.",
        ),
    ] = False,
    analyze: Annotated[
        bool,
        typer.Option(
            "--analyze", help="Let Spark check every definition against the columns of its inputs; starts a JVM."
        ),
    ] = False,
) -> None:
    """Show what `penstock run` would do to each dataset, and why. Writes nothing and, without --analyze, starts no JVM."""
    settings = current_settings()
    engine = open_from_settings(settings)
    made = engine.plan(
        engine.request(select, exclude, full_refresh, full_refresh_all, allow_history_loss, drop_retired)
    )
    if analyze:
        made = engine.analyze(made)
    made = replace(made, maintenance=_find_due(engine, made))
    settings.exit_code = 1 if made.has_problems else 2 if detailed_exitcode and made.has_work else 0
    make_output(settings).plan(made)
    if settings.exit_code:
        raise typer.Exit(settings.exit_code)


def _find_due(engine: Engine, made: Plan) -> tuple[Item, ...]:
    """The maintenance that is due for the datasets of a plan."""
    planned = {item.dataset for item in made.items}
    return tuple(item for item in engine.maintenance.due() if item.dataset in planned)


def run(
    select: Select = None,
    exclude: Exclude = None,
    full_refresh: FullRefresh = None,
    full_refresh_all: FullRefreshAll = False,
    allow_history_loss: AllowHistoryLoss = None,
    drop_retired: DropRetired = False,
    wait: Wait = 600.0,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Then keep applying change events as they arrive, until stopped.")
    ] = False,
    every: Annotated[
        float,
        typer.Option(
            "--every",
            metavar="SECONDS",
            min=0.1,
            help="With --continuous: seconds between checks for new change events.",
        ),
    ] = 2.0,
) -> None:
    """Run the pipeline. Executes the plan in the order of the inputs, in parallel where possible."""
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
    """Apply change events as they arrive; SIGTERM or Ctrl-C stops cleanly between two rounds, or soon after."""
    import threading

    from penstock.cli.signals import stop_between_rounds

    stop = threading.Event()
    output = make_output(settings)
    with stop_between_rounds(stop):
        output.text("Waiting for change events. Press Ctrl-C to stop.")
        engine.run_continuously(output.batch, stop, seconds)
    output.text("Stopped.")


def rebuild(
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="Tables to rebuild, as name or database.name.")
    ],
    allow_history_loss: Annotated[
        bool, typer.Option("--allow-history-loss", help="Allow the loss of rows whose raw files are gone.")
    ] = False,
) -> None:
    """Rebuild tables from scratch. Each is replaced in a single commit; its readers are updated by the next run."""
    names = ",".join(tables)
    may_lose = names if allow_history_loss else None
    settings = current_settings()
    with open_from_settings(settings) as engine:
        request = engine.request(tables, full_refresh=names, allow_history_loss=may_lose)
        run_project(engine, settings, replace(request, selected_by="rebuild"))


def run_project(engine: Engine, settings: Settings, request: PlanRequest | None = None, wait: float = 600.0) -> None:
    """Run the pipeline, show progress and the result, and exit with 1 if anything failed, or with the code of a signal."""
    from penstock.cli.progress import make_progress
    from penstock.telemetry.logs import LOGGER

    seen: list[Plan] = []
    with make_progress(settings, request.message if request is not None else "penstock run") as progress:

        def on_plan(made: Plan) -> None:
            seen.append(made)
            progress.planned(made)

        def on_stop(stopped: StoppedError) -> None:
            text = f"{stopped}: work in progress is cancelled; the same signal again ends at once"
            progress.say(format_stop(text, settings.log_format))

        try:
            result = engine.run(
                request,
                listeners=(progress,),
                on_plan=on_plan,
                on_wait=lambda holder: LOGGER.info("waiting for %s", holder),
                on_stop=on_stop,
                wait_seconds=wait,
            )
            settings.exit_code = int(result.has_failed)
        except StoppedError as stopped:
            if stopped.result is None:
                raise
            result = stopped.result
            settings.exit_code = stopped.exit_code
    make_output(settings).run(seen[0] if seen else None, result)
    if settings.exit_code:
        raise typer.Exit(settings.exit_code)
