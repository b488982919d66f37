"""Options that every command understands, wherever they stand, and the settings they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from typer.core import TyperCommand

from penstock.errors import UsageError


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


def current_settings() -> Settings:
    """The settings of the command that runs now."""
    settings = click.get_current_context().find_root().ensure_object(Settings)
    return settings


class ProjectCommand(TyperCommand):
    """A command with the common options added."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common_options())


def _common_options() -> list[click.Option]:
    return [
        _option("--project-dir", "-C", help="The project's folder (default: this folder or one above).", set_=_set_dir),
        _option("--target", "-t", help="Use the overrides of this target.", set_=_set("target")),
        _option("--var", multiple=True, help="Set a project variable, as name=value.", set_=_set_variables),
        _option("--event-log", help="Use the event log at this URI.", set_=_set("event_log")),
        _option("--json", is_flag=True, help="Print the result as JSON.", set_=_set("as_json")),
        _option("--quiet", "-q", is_flag=True, help="No progress and no log; results and errors only.", set_=_set("quiet")),
        _option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            help="How log lines on stderr look.",
            set_=_set("log_format"),
        ),
    ]


def _option(*names: str, set_: Callable[[Settings, Any], None], **kwargs: Any) -> click.Option:
    def store(context: click.Context, _: click.Parameter, value: Any) -> Any:
        if value not in (None, (), False):
            set_(context.find_root().ensure_object(Settings), value)
        return value

    return click.Option(names, expose_value=False, callback=store, **kwargs)


def _set(name: str) -> Callable[[Settings, Any], None]:
    def assign(settings: Settings, value: Any) -> None:
        setattr(settings, name, value)

    return assign


def _set_dir(settings: Settings, value: str) -> None:
    folder = Path(value)
    if not folder.is_dir():
        raise UsageError(f"--project-dir: there is no folder {value}")
    settings.project_dir = folder


def _set_variables(settings: Settings, values: tuple[str, ...]) -> None:
    for value in values:
        name, separator, text = value.partition("=")
        if not separator or not name:
            raise UsageError(f"--var {value}: write it as name=value")
        settings.variables[name] = text
