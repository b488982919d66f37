"""Options that every command has, and the settings they produce."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from penstock.cli.signals import show_stop
from penstock.cli.value_names import name_value
from penstock.errors import UsageError, to_stopped


class LogFormat(StrEnum):
    """The format of log lines."""

    text = "text"
    json = "json"


_WITHOUT_VALUE = {"--graph": "text"}
"""Options whose value may be left out, and what it is then; Typer itself always takes the next word."""


def with_default_values(arguments: list[str]) -> list[str]:
    """The arguments, with the values that were left out."""
    filled: list[str] = []
    for place, argument in enumerate(arguments):
        filled.append(argument)
        following = arguments[place + 1] if place + 1 < len(arguments) else "-"
        if argument in _WITHOUT_VALUE and following.startswith("-"):
            filled.append(_WITHOUT_VALUE[argument])
    return filled


@dataclass(slots=True)
class Settings:
    """The values of the options that every command has."""

    project_dir: Path | None = None
    target: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    event_log: str | None = field(default=None, repr=False)
    as_json: bool = False
    quiet: bool = False
    log_format: str = "text"
    exit_code: int = 0
    """The result of the command, decided before anything is shown."""


_settings: ContextVar[Settings] = ContextVar("penstock_settings")

COMMON: dict[str, tuple[Any, Any]] = {
    "project_dir": (
        Annotated[
            Path | None,
            typer.Option(
                "--project-dir",
                "-C",
                metavar="FOLDER",
                help="The project folder (default: the current folder or the nearest parent with a penstock.yml).",
            ),
        ],
        None,
    ),
    "target": (
        Annotated[
            str | None,
            typer.Option("--target", "-t", metavar="NAME", help="Apply the overrides of this target in penstock.yml."),
        ],
        None,
    ),
    "var": (
        Annotated[
            list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="Set a project variable, as name=value.")
        ],
        None,
    ),
    "event_log": (
        Annotated[str | None, typer.Option("--event-log", metavar="URI", help="Use the event log at this URI.")],
        None,
    ),
    "as_json": (Annotated[bool, typer.Option("--json", help="Print the result as JSON.")], False),
    "quiet": (Annotated[bool, typer.Option("--quiet", "-q", help="Show only results and errors, no progress.")], False),
    "log_format": (
        Annotated[LogFormat, typer.Option("--log-format", help="Format of the log lines on stderr.")],
        LogFormat.text,
    ),
}


def current_settings() -> Settings:
    """The settings of the current command; the defaults before a command is parsed."""
    return _settings.get(Settings())


def with_project_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the common options to a command; it reads their values from `current_settings`."""
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    own = [p.replace(annotation=hints.get(p.name, p.annotation)) for p in signature.parameters.values()]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in COMMON.items()
    ]

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            _settings.set(_to_settings({name: kwargs.pop(name) for name in COMMON}))
            command(*args, **kwargs)
        except KeyboardInterrupt as error:  # here, because Typer would end with 130 for every signal, and say nothing
            stopped = to_stopped(error)
            if not stopped.is_told:
                show_stop(str(stopped), current_settings().log_format)
            raise typer.Exit(stopped.exit_code) from None

    wrapper.__signature__ = signature.replace(parameters=[*own, *common])  # type: ignore[attr-defined]
    for parameter in (*own, *common):
        name_value(parameter.name, parameter.annotation)
    wrapper.__annotations__ = {p.name: p.annotation for p in (*own, *common)}
    return wrapper


def _to_settings(given: dict[str, Any]) -> Settings:
    settings = Settings(
        given["project_dir"],
        given["target"],
        {},
        given["event_log"],
        given["as_json"],
        given["quiet"],
        given["log_format"].value,
    )
    _settings.set(settings)
    if settings.project_dir is not None and not settings.project_dir.is_dir():
        raise UsageError(f"--project-dir: there is no folder {settings.project_dir}")
    for value in given["var"] or ():
        name, separator, text = value.partition("=")
        if not separator or not name:
            raise UsageError(f"--var {value}: write it as name=value")
        settings.variables[name] = text
    return settings
