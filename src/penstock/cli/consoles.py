"""Where text for people goes, and how errors and other whole lines are printed there."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.markup import escape

from penstock.cli.results import results


class _PlainConsole(Console):
    """A console that lets the command decide the exit code when the pipe is closed."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def make_console(*, stderr: bool = False) -> Console:
    """A console on a terminal; wide and without colour when the output is piped."""
    stream = sys.stderr if stderr else results()
    return _PlainConsole(
        file=stream, highlight=False, emoji=False, soft_wrap=not stream.isatty(), width=None if stream.isatty() else 240
    )


def print_problem(console: Console, message: str, hint: str | None) -> None:
    """The error, and what to do about it."""
    print_whole(console, f"[bold red]error:[/] {escape(message)}")
    if hint:
        print_whole(console, f"  [bold]hint:[/] {escape(hint)}")


def print_whole(console: Console, markup: str) -> None:
    """A line that only the terminal breaks: a place that is cut in two can be neither clicked nor copied."""
    console.print(markup, overflow="ignore", crop=False)
