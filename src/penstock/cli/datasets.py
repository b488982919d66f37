"""`penstock ls`, `show`, `history` and `compile`: inspecting tables and definitions without a JVM."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.opening import open_from_settings
from penstock.cli.options import current_settings
from penstock.cli.output import make_output

Name = Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, as name or database.name.")]


class GraphFormat(StrEnum):
    """How the graph of datasets is drawn."""

    text = "text"
    mermaid = "mermaid"
    dot = "dot"


def list_datasets(
    graph: Annotated[
        GraphFormat | None,
        typer.Option("--graph", help="Show what reads what instead, as a tree, Mermaid or DOT (default: text)."),
    ] = None,
) -> None:
    """List all datasets with version and last update, or what reads what."""
    settings = current_settings()
    output, inspector = make_output(settings), open_from_settings(settings).inspector
    if graph is None:
        output.datasets(inspector.datasets())
        return
    found = inspector.graph()
    output.show(found.to_json(), lambda text: text.plain(found.draw(graph.value)))


def compile_query(name: Name) -> None:
    """Print the SQL of a definition as it will run: with its variables filled in, and the temporary views it reads."""
    settings = current_settings()
    found = open_from_settings(settings).inspector.compile(name)
    make_output(settings).show(found.to_json(), lambda text: text.plain(found.text))


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
