"""The `penstock` command: its list of commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import click
import typer

from penstock import __version__
from penstock.cli import datasets, demo, pipeline, project
from penstock.cli.options import ProjectCommand, Settings
from penstock.errors import PenstockError

app = typer.Typer(
    name="penstock",
    help="The smallest safe amount of work that makes your tables right, on Spark and Delta Lake.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_BUILD = "Build"
_LOOK = "Look"
_PROJECT = "Project"

app.command(cls=ProjectCommand, rich_help_panel=_BUILD)(pipeline.plan)
app.command(cls=ProjectCommand, rich_help_panel=_BUILD)(pipeline.run)
app.command("ls", cls=ProjectCommand, rich_help_panel=_LOOK)(datasets.list_datasets)
app.command(cls=ProjectCommand, rich_help_panel=_LOOK)(datasets.show)
app.command(cls=ProjectCommand, rich_help_panel=_LOOK)(datasets.history)
app.command(cls=ProjectCommand, rich_help_panel=_PROJECT)(project.init)
app.command(cls=ProjectCommand, rich_help_panel=_PROJECT)(demo.demo)
app.command(cls=ProjectCommand, rich_help_panel=_PROJECT)(project.doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"penstock {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """The smallest safe amount of work that makes your tables right, on Spark and Delta Lake."""
    _ = version


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: exit code 0 when all is well, 1 when work failed, 2 when the command or project is wrong."""
    settings = Settings()
    try:
        code = typer.main.get_command(app).main(arguments, "penstock", standalone_mode=False, obj=settings)
    except PenstockError as error:
        code = _report(error, settings)
    except click.ClickException as error:
        error.show()
        code = 2
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("interrupted\n")
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code if isinstance(code, int) else 0)


def _report(error: PenstockError, settings: Settings) -> int:
    from penstock.cli.output import show_error

    show_error(error, settings)
    return error.exit_code
