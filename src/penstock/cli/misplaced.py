"""Options of a command that are given before it: Typer knows no such option there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def find_command_of(error: Exception, arguments: Sequence[str]) -> str | None:
    """Where the option that an error is about belongs; None if it is no option of a command further down."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if option is None or context is None:
        return None
    below = [path for path, command in _find_below(context.command, str(context.command_path)) if _has(command, option)]
    given = [path for path in below if set(path.split()[1:]) <= set(arguments)]
    return f"{option} comes after the command: `{(given or below)[0]} {option}`" if below else None


def _find_below(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, each in getattr(command, "commands", {}).items():
        yield f"{path} {name}", each
        yield from _find_below(each, f"{path} {name}")


def _has(command: Any, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)
