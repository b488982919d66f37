"""`penstock schema ...`: what columns a table has, what the next run would change, and how they came to be."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.datasets import Name
from penstock.cli.opening import open_from_settings
from penstock.cli.options import current_settings, with_project_options
from penstock.cli.output import make_output

app = typer.Typer(
    help="Look at the columns of tables: as they are, as they were, as the next run leaves them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def show(name: Name) -> None:
    """Show a table's columns, with the types that raw files gave them."""
    settings = current_settings()
    make_output(settings).schema(open_from_settings(settings).inspector.schema(name))


def diff(
    name: Name,
    before: Annotated[int | None, typer.Option("--from", min=0, help="Compare this version of the table ...")] = None,
    after: Annotated[int | None, typer.Option("--to", min=0, help="... with this one (default: the newest).")] = None,
) -> None:
    """Show how a table's columns would change with the next run; or how they differ between two versions."""
    settings = current_settings()
    engine = open_from_settings(settings)
    changes = (
        engine.schema_drift(name)
        if before is None and after is None
        else engine.inspector.schema_diff(name, before, after)
    )
    make_output(settings).changes(changes)


def history(name: Name) -> None:
    """Show every version that changed a table's columns, newest first."""
    settings = current_settings()
    make_output(settings).schema_history(open_from_settings(settings).inspector.schema_history(name))


for _command in (show, diff, history):
    app.command(_command.__name__)(with_project_options(_command))
