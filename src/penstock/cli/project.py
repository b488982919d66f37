"""`penstock init`, `penstock doctor`: creating a project and checking the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import current_settings
from penstock.cli.output import make_output


def init(name: Annotated[str, typer.Argument(help="Name of the project, and of the folder to create.")]) -> None:
    """Create a sample project with data that runs without a network."""
    from penstock.config.template import write_sample_project

    folder = Path.cwd() / name
    files = write_sample_project(folder, name)
    make_output(current_settings()).created(name, [str(file) for file in files])


def doctor() -> None:
    """Check Java, Spark, the Delta jars, storage and the event log, and suggest a fix for what fails."""
    from penstock.engine import check_machine

    settings = current_settings()
    checks = check_machine(
        settings.project_dir, target=settings.target, variables=settings.variables, event_log=settings.event_log
    )
    make_output(settings).checks(checks)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)
