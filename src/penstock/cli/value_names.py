"""What values are called in help texts and in the reference: words of a user, where Typer shows types of Python."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from typer.models import ArgumentInfo, OptionInfo

_WORDS = {str: "TEXT", int: "N", float: "NUMBER", Path: "PATH"}


def find_info(annotation: Any) -> OptionInfo | ArgumentInfo:
    """What the annotation of a parameter declares."""
    return next(item for item in get_args(annotation)[1:] if isinstance(item, OptionInfo | ArgumentInfo))


def kind_of(annotation: Any) -> tuple[Any, bool]:
    """The type of a value without `None`, and whether several may be given."""
    given = get_args(annotation)[0]
    kinds = [kind for kind in get_args(given) if kind is not NoneType] if get_origin(given) is not list else []
    kind = kinds[0] if kinds else given
    return (get_args(kind)[0], True) if get_origin(kind) is list else (kind, False)


def name_value(name: str, annotation: Any) -> None:
    """Give the value of a parameter a name, unless its declaration has one: for an option by its type."""
    info, (kind, _) = find_info(annotation), kind_of(annotation)
    if info.metavar is None and kind is not bool:
        info.metavar = name.upper() if isinstance(info, ArgumentInfo) else _word(kind)


def _word(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    return _WORDS[kind]


def show_value_names(command: Any) -> Any:
    """The command that Typer has made, which shows these names in its help, and so do the commands below it."""
    for parameter in command.params:
        if parameter.metavar is not None:
            _show(parameter)
    for below in getattr(command, "commands", {}).values():
        show_value_names(below)
    return command


def _show(parameter: Any) -> None:
    word = parameter.metavar
    if parameter.param_type_name == "option":
        parameter.display_type = lambda *_, **__: word
        return
    usage = word if parameter.required else f"[{word}]"
    parameter.display_type = lambda *_, **__: ""
    parameter.get_usage_pieces = lambda *_, **__: [usage]
