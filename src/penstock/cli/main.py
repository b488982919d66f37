"""The `penstock` command: its list of commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from penstock import __version__
from penstock.cli import (
    advise,
    build,
    compact,
    datasets,
    demo,
    erase,
    log,
    pipeline,
    project,
    receipt,
    requests,
    scheduler,
    schema,
    tombstone,
    verify,
)
from penstock.cli.leaving import leave
from penstock.cli.misplaced import find_command_of
from penstock.cli.options import current_settings, with_default_values, with_project_options
from penstock.cli.results import own_stdout, results
from penstock.cli.signals import show_stop, stop_signals
from penstock.cli.value_names import show_value_names
from penstock.errors import PenstockError, UsageError, first_line, to_stopped

app = typer.Typer(
    name="penstock",
    help="Incremental pipelines on Spark and Delta Lake: plan and do the least work that makes every table correct.",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

TRACE = "PENSTOCK_TRACE"
"""Set it to see the stack trace of an internal error."""

_BUILD = "Build"
_LOOK = "Inspect"
_MAINTAIN = "Maintain"
_ERASE = "Erase"
_PROJECT = "Project"

_COMMANDS = (
    ("plan", pipeline.plan, _BUILD),
    ("run", pipeline.run, _BUILD),
    ("rebuild", pipeline.rebuild, _BUILD),
    ("build", build.build, _BUILD),
    ("backfill", build.backfill, _BUILD),
    ("retry", build.retry, _BUILD),
    ("scheduler", scheduler.scheduler, _BUILD),
    ("cancel", requests.cancel, _BUILD),
    ("invalidate", requests.invalidate, _BUILD),
    ("mark", requests.mark, _BUILD),
    ("compact", compact.compact, _MAINTAIN),
    ("maintain", compact.maintain, _MAINTAIN),
    ("advise", advise.advise, _LOOK),
    ("verify", verify.verify, _LOOK),
    ("logs", requests.logs, _LOOK),
    ("ls", datasets.list_datasets, _LOOK),
    ("show", datasets.show, _LOOK),
    ("history", datasets.history, _LOOK),
    ("compile", datasets.compile_query, _LOOK),
    ("erase", erase.erase, _ERASE),
    ("verify-erasure", erase.verify_erasure, _ERASE),
    ("init", project.init, _PROJECT),
    ("demo", demo.demo, _PROJECT),
    ("doctor", project.doctor, _PROJECT),
)
for _name, _command, _panel in _COMMANDS:
    app.command(_name, rich_help_panel=_panel)(with_project_options(_command))
app.add_typer(schema.app, name="schema", rich_help_panel=_LOOK)
app.add_typer(log.app, name="log", rich_help_panel=_LOOK)
app.add_typer(receipt.app, name="receipt", rich_help_panel=_ERASE)
app.add_typer(tombstone.app, name="tombstone", rich_help_panel=_ERASE)


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
    """Incremental pipelines on Spark and Delta Lake: plan and do the least work that makes every table correct."""
    _ = version


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: exit code 0 for success, 1 when work failed, 2 when the command or project is invalid.

    130 after Ctrl-C and 143 after SIGTERM, as shells report it.
    """
    if arguments is not None:
        sys.exit(_run(arguments))
    own_stdout()
    leave(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    try:
        with stop_signals():
            given = with_default_values(arguments) or ["--help"]
            code = show_value_names(typer.main.get_command(app)).main(given, "penstock", standalone_mode=False)
        results().flush()
        code = code if arguments else UsageError.exit_code
    except PenstockError as error:
        code = _report(error, arguments)
    except typer.TyperException as error:
        message = error.format_message().replace("Value error, ", "")  # how typer says that a choice is wrong
        hint = "--full-refresh-all refreshes every table" if "'--full-refresh'" in message else "see `penstock --help`"
        hint = find_command_of(error, arguments) or hint
        code = _report(UsageError(message, hint=hint), arguments)
    except KeyboardInterrupt as error:
        stopped = to_stopped(error)
        show_stop(str(stopped), current_settings().log_format)
        code = stopped.exit_code
    except typer.Abort:
        sys.stderr.write("interrupted\n")
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), results().fileno())
        code = current_settings().exit_code
    except Exception as error:
        if os.environ.get(TRACE):
            raise
        code = _report(_unexpected(error), arguments)
    return code if isinstance(code, int) else 0


def _unexpected(error: Exception) -> PenstockError:
    """An internal error, reported in one line with the way to see the stack trace."""
    return PenstockError(
        f"internal error: {type(error).__name__}: {first_line(error)}",
        hint=f"this is a bug: please report it with the stack trace, which {TRACE}=1 shows",
    )


def _report(error: PenstockError, arguments: list[str]) -> int:
    from penstock.cli.output import show_error

    show_error(error, current_settings())
    # With this option 2 means that there is work, and nothing else.
    return PenstockError.exit_code if "--detailed-exitcode" in arguments else error.exit_code
