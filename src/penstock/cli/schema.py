"""`penstock schema ...`: the columns of a table now, after the next run, and in the past."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.datasets import Name
from penstock.cli.opening import open_from_settings
from penstock.cli.options import current_settings, with_project_options
from penstock.cli.output import make_output

app = typer.Typer(
    help="Show the columns of a table and how they change.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def show(name: Name) -> None:
    """Show the columns of a table and the types they have in the raw files."""
    settings = current_settings()
    make_output(settings).schema(open_from_settings(settings).inspector.schema(name))


def diff(
    name: Name,
    before: Annotated[
        int | None, typer.Option("--from", metavar="VERSION", min=0, help="The older version of the table to compare.")
    ] = None,
    after: Annotated[
        int | None,
        typer.Option("--to", metavar="VERSION", min=0, help="The newer version to compare (default: the newest)."),
    ] = None,
) -> None:
    """Show how the next run would change the columns of a table, or how two versions differ."""
    settings = current_settings()
    engine = open_from_settings(settings)
    changes = (
        engine.schema_drift(name)
        if before is None and after is None
        else engine.inspector.schema_diff(name, before, after)
    )
    make_output(settings).changes(changes)


def history(name: Name) -> None:
    """Show the versions that changed the columns of a table, newest first."""
    settings = current_settings()
    make_output(settings).schema_history(open_from_settings(settings).inspector.schema_history(name))


for _command in (show, diff, history):
    app.command(_command.__name__)(with_project_options(_command))
