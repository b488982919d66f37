"""The command reference, made from the commands themselves.

`python -m penstock.cli.reference` prints it; docs/cli.md is that output, and a test keeps it so. It reads the
declarations of the options, not the help text of a terminal, so that the output is the same everywhere.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from typer.models import ArgumentInfo, OptionInfo

from penstock.cli.main import app
from penstock.cli.options import COMMON

_INTRODUCTION = """\
# Commands

<!-- Made by `make docs` from the commands themselves; do not edit. -->

`penstock COMMAND [OPTIONS]`. Results go to stdout, log lines and errors to stderr. Exit codes: 0 all is well, 1 work
failed, 2 the command, the project file or a definition is wrong; more in [operations.md](operations.md#exit-codes).
`penstock --version` shows the version, `penstock COMMAND --help` shows what is below.
"""
_VALUES = {str: "TEXT", int: "N", float: "NUMBER", Path: "PATH"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One option or argument, as a user writes it."""

    usage: str
    help: str
    names: tuple[str, ...] = ()
    """How an option may be spelled; nothing for an argument."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command with what it takes."""

    name: str
    panel: str
    help: str
    arguments: tuple[Parameter, ...]
    options: tuple[Parameter, ...]


def commands() -> tuple[Command, ...]:
    """Every command in the order of `penstock --help`, without the options that all commands share."""
    found = [(str(info.name), str(info.rich_help_panel), info.callback) for info in app.registered_commands]
    for group in app.registered_groups:
        inner = group.typer_instance.registered_commands if group.typer_instance else []
        found += [(f"{group.name} {info.name}", f"`penstock {group.name}`", info.callback) for info in inner]
    return tuple(_to_command(name, panel, callback) for name, panel, callback in found if callback is not None)


def common_options() -> tuple[Parameter, ...]:
    """The options that every command understands."""
    return tuple(_to_parameter(name, annotation, default) for name, (annotation, default) in COMMON.items())


def reference_text() -> str:
    """The reference as the text of docs/cli.md."""
    parts = [_INTRODUCTION, "## Options of every command\n", _table("option", common_options())]
    panel = ""
    for command in commands():
        if command.panel != panel:
            panel = command.panel
            parts.append(f"## {panel}\n")
        parts += _command_parts(command)
    return "\n".join(parts)


def _command_parts(command: Command) -> Iterator[str]:
    usage = " ".join([f"penstock {command.name}", *(argument.usage for argument in command.arguments), "[OPTIONS]"])
    yield f"### penstock {command.name}\n\n    {usage}\n\n{command.help}\n"
    if command.arguments:
        yield _table("argument", command.arguments)
    if command.options:
        yield _table("option", command.options)


def _table(title: str, parameters: tuple[Parameter, ...]) -> str:
    rows = [f"| `{_escape(parameter.usage)}` | {_escape(parameter.help)} |" for parameter in parameters]
    return "\n".join([f"| {title} | what it does |", "|---|---|", *rows]) + "\n"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def _to_command(name: str, panel: str, callback: Callable[..., Any]) -> Command:
    parameters = [
        (parameter, _info(parameter.annotation))
        for parameter in inspect.signature(callback).parameters.values()
        if parameter.name not in COMMON
    ]
    made = [(info, _to_parameter(p.name, p.annotation, p.default)) for p, info in parameters]
    return Command(
        name=name,
        panel=panel,
        help=" ".join(inspect.cleandoc(callback.__doc__ or "").split()),
        arguments=tuple(parameter for info, parameter in made if isinstance(info, ArgumentInfo)),
        options=tuple(parameter for info, parameter in made if isinstance(info, OptionInfo)),
    )


def _to_parameter(name: str, annotation: Any, default: Any) -> Parameter:
    info, kind, is_list = _info(annotation), *_kind(annotation)
    words = [info.help or ""]
    if is_list:
        words.append("May be given more than once.")
    if isinstance(info, ArgumentInfo):
        word = info.metavar or name.upper()
        return Parameter(word if default is inspect.Parameter.empty else f"[{word}]", " ".join(words))
    if kind is not bool and default not in {None, inspect.Parameter.empty}:
        words.append(f"Default: {_shown(default)}.")
    # Inside Annotated, typer takes the first spelling for the default.
    spelled = [text for text in (info.default, *(info.param_decls or ())) if isinstance(text, str)]
    names = tuple(sorted(spelled or [f"--{name.replace('_', '-')}"], key=len))
    value = "" if kind is bool else f" {info.metavar or _value(kind)}"
    return Parameter(", ".join(names) + value, " ".join(words), names)


def _info(annotation: Any) -> OptionInfo | ArgumentInfo:
    found = [item for item in get_args(annotation)[1:] if isinstance(item, OptionInfo | ArgumentInfo)]
    if get_origin(annotation) is not Annotated or not found:
        raise TypeError(f"a parameter of a command is declared without Annotated[...]: {annotation}")
    return found[0]


def _kind(annotation: Any) -> tuple[Any, bool]:
    """The type of a value without `None`, and whether several may be given."""
    given = get_args(annotation)[0]
    kinds = [kind for kind in get_args(given) if kind is not NoneType] if get_origin(given) is not list else []
    kind = kinds[0] if kinds else given
    return (get_args(kind)[0], True) if get_origin(kind) is list else (kind, False)


def _value(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    return _VALUES[kind]


def _shown(default: Any) -> str:
    if isinstance(default, Enum):
        return str(default.value)
    return str(int(default)) if isinstance(default, float) and default.is_integer() else str(default)


if __name__ == "__main__":
    sys.stdout.write(reference_text())
