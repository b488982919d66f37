"""Options that every command understands, and the settings they make."""

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

from penstock.errors import UsageError


class LogFormat(StrEnum):
    """How log lines look."""

    text = "text"
    json = "json"


@dataclass(slots=True)
class Settings:
    """What the user said about where to work and how to speak."""

    project_dir: Path | None = None
    target: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    event_log: str | None = None
    as_json: bool = False
    quiet: bool = False
    log_format: str = "text"
    exit_code: int = 0
    """What the command has come to, decided before anything is shown."""


_settings: ContextVar[Settings] = ContextVar("penstock_settings")

COMMON: dict[str, tuple[Any, Any]] = {
    "project_dir": (
        Annotated[
            Path | None,
            typer.Option("--project-dir", "-C", help="The project's folder (default: this folder or one above)."),
        ],
        None,
    ),
    "target": (Annotated[str | None, typer.Option("--target", "-t", help="Use the overrides of this target.")], None),
    "var": (Annotated[list[str] | None, typer.Option("--var", help="Set a project variable, as name=value.")], None),
    "event_log": (Annotated[str | None, typer.Option("--event-log", help="Use the event log at this URI.")], None),
    "as_json": (Annotated[bool, typer.Option("--json", help="Print the result as JSON.")], False),
    "quiet": (Annotated[bool, typer.Option("--quiet", "-q", help="Results and errors only, no progress.")], False),
    "log_format": (
        Annotated[LogFormat, typer.Option("--log-format", help="How log lines on stderr look.")],
        LogFormat.text,
    ),
}


def current_settings() -> Settings:
    """The settings of the command that runs now; the defaults before a command was understood."""
    return _settings.get(Settings())


def with_project_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the common options; it finds what the user said in `current_settings`."""
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    own = [p.replace(annotation=hints.get(p.name, p.annotation)) for p in signature.parameters.values()]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in COMMON.items()
    ]

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        _settings.set(_to_settings({name: kwargs.pop(name) for name in COMMON}))
        command(*args, **kwargs)

    wrapper.__signature__ = signature.replace(parameters=[*own, *common])  # type: ignore[attr-defined]
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
