"""`penstock init`, `penstock doctor`: creating a project and checking the machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import current_settings
from penstock.cli.output import make_output
from penstock.cli.results import keep_results_apart

if TYPE_CHECKING:
    from penstock.cli.text_output import TextOutput
    from penstock.inspect.doctor import Check


def init(name: Annotated[str, typer.Argument(help="Name of the project, and of the folder to create.")]) -> None:
    """Create a sample project with data that runs without a network."""
    from penstock.config.template import write_sample_project

    folder = Path.cwd() / name
    files = write_sample_project(folder, name)
    created = {"folder": name, "files": [str(file) for file in files]}
    steps = "\n".join(f"  {command}" for command in (f"cd {name}", "penstock plan", "penstock run"))
    make_output(current_settings()).show(
        created, lambda output: output.text(f"Created {name} with {len(files)} files. Next:\n\n{steps}")
    )


def doctor(
    data: Annotated[
        bool, typer.Option("--data", help="Also read every data file of every table, and verify its checksums.")
    ] = False,
) -> None:
    """Check that everything is ready for a run. Covers Java, Spark, jars, storage and event log, and suggests fixes.

    With --data it takes as long as reading all tables once; it starts no JVM and changes nothing.
    """
    from penstock.engine import check_machine

    settings = current_settings()
    keep_results_apart()
    checks = check_machine(
        settings.project_dir,
        target=settings.target,
        variables=settings.variables,
        event_log=settings.event_log,
        reads_data=data,
    )
    make_output(settings).show([check.to_json() for check in checks], partial(_draw_checks, checks))
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def _draw_checks(checks: Sequence[Check], output: TextOutput) -> None:
    from rich.markup import escape

    for check in checks:
        mark = "[green]ok  [/]" if check.ok else "[bold red]FAIL[/]"
        output.text(f"{mark} {check.name:<12} {escape(check.detail)}")
        if check.fix:
            output.text(f"     {'':<12} [bold]fix:[/] {escape(check.fix)}")
