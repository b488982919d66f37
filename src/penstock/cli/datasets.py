"""`penstock ls`, `penstock show` and `penstock history`: inspecting tables without a JVM."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import open_from_settings
from penstock.cli.options import current_settings
from penstock.cli.output import make_output

Name = Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, as name or database.name.")]


def list_datasets() -> None:
    """List all datasets with version and last update."""
    settings = current_settings()
    make_output(settings).datasets(open_from_settings(settings).inspector.datasets())


def show(
    name: Name,
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, help="Show this many rows instead of the details.")] = 0,
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="Show quarantined rows (20 unless --rows is given).")
    ] = False,
) -> None:
    """Show the details of a dataset, or some of its rows."""
    settings = current_settings()
    inspector = open_from_settings(settings).inspector
    output = make_output(settings)
    if rows or quarantine:
        output.rows(inspector.rows(name, rows or 20, quarantine=quarantine))
    else:
        output.details(inspector.show(name))


def history(
    name: Name, limit: Annotated[int, typer.Option("--limit", min=1, help="Number of versions to show.")] = 20
) -> None:
    """Show the versions of a table, with the pipeline run that wrote each."""
    settings = current_settings()
    make_output(settings).history(open_from_settings(settings).inspector.history(name, limit))
