"""`penstock build`, `penstock backfill` and `penstock retry`: requests for partitions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.opening import open_from_settings
from penstock.cli.options import current_settings
from penstock.cli.output import make_output
from penstock.cli.pipeline import Wait, run_project
from penstock.errors import UsageError
from penstock.model.partitions.declared import BuildOptions
from penstock.model.wording import counted

if TYPE_CHECKING:
    from penstock.cli.text_output import TextOutput
    from penstock.run.partition_builds import Preview

Parallel = Annotated[
    int | None, typer.Option("--parallel", min=1, help="Job runs at the same time; the project's `threads` by default.")
]
Chunk = Annotated[
    str, typer.Option("--chunk", help="The most partitions in one job run, for definitions that take many; or auto.")
]
MaxFailures = Annotated[
    int | None, typer.Option("--max-failures", min=0, help="Start nothing new after more failed partitions than this.")
]
Order = Annotated[
    str, typer.Option("--order", metavar="asc|desc", help="Which partitions are built first: asc or desc.")
]
Refresh = Annotated[bool, typer.Option("--full-refresh", help="Build partitions that are up to date, too.")]


def build(
    refs: Annotated[
        list[str],
        typer.Argument(
            metavar="REF...", help="Partitions (main.sales/date=2024-01-01..2024-03-31), datasets or selectors."
        ),
    ],
    parallel: Parallel = None,
    full_refresh: Refresh = False,
    wait: Wait = 600.0,
) -> None:
    """Build partitions and datasets with everything that they read. What is up to date is not built again."""
    settings = current_settings()
    with open_from_settings(settings) as engine:
        options = BuildOptions(parallel, full_refresh=full_refresh)
        run_project(engine, settings, engine.partition_builds.build(refs, options), wait)


def backfill(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A partitioned dataset, as name or database.name.")],
    start: Annotated[
        str | None,
        typer.Option("--start", metavar="PARTITION", help="The first partition; the first of all by default."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", metavar="PARTITION", help="The last partition; the last of all by default.")
    ] = None,
    parallel: Parallel = None,
    chunk: Chunk = "auto",
    max_failures: MaxFailures = None,
    order: Order = "asc",
    full_refresh: Refresh = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be built, and why.")] = False,
    wait: Wait = 600.0,
) -> None:
    """Build a range of partitions. A failed one stops no other, and what is up to date is not built again."""
    settings = current_settings()
    with open_from_settings(settings) as engine:
        builds = engine.partition_builds
        wanted = builds.find_slice(dataset, start, end)
        options = BuildOptions(parallel, _to_size(chunk), max_failures, _is_descending(order), full_refresh)
        request = replace(builds.backfill(wanted, options), message=f"penstock backfill {wanted}")
        if dry_run:
            found = builds.preview(wanted, engine.plan(request))
            make_output(settings).show(found.to_json(), partial(_draw_preview, found))
        else:
            run_project(engine, settings, request, wait)


def retry(
    build_id: Annotated[
        str | None,
        typer.Argument(metavar="BUILD", help="The id of a build, or its start; the last that failed by default."),
    ] = None,
    parallel: Parallel = None,
    wait: Wait = 600.0,
) -> None:
    """Build again what failed or never ran in a build, and nothing else."""
    settings = current_settings()
    with open_from_settings(settings) as engine:
        request = engine.partition_builds.retry(build_id, BuildOptions(parallel))
        if request is None:
            make_output(settings).show(
                {"retried": []}, lambda output: output.text("Nothing to retry: everything in this build was built.")
            )
            return
        run_project(engine, settings, replace(request, message="penstock retry"), wait)


def _to_size(chunk: str) -> int | None:
    if chunk == "auto":
        return None
    if not chunk.isdigit() or int(chunk) < 1:
        raise UsageError(f"--chunk must be auto or a number above 0, not {chunk}")
    return int(chunk)


def _is_descending(order: str) -> bool:
    if order not in {"asc", "desc"}:
        raise UsageError(f"--order must be asc or desc, not {order}")
    return order == "desc"


def _draw_preview(found: Preview, output: TextOutput) -> None:
    output.table(("partitions", "count", "action", "why"), found.rows())
    output.text(f"{counted(found.count, 'partition')} of {found.dataset} in {counted(found.job_runs, 'job run')}.")
