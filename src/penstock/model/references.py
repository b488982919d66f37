"""References to the environment in texts: `${NAME}`, `${NAME:-default}`; `$${` stands for a literal `${`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.model.nearest import did_you_mean

_REFERENCE = re.compile(r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\})?")


class ReferenceFillError(ValueError):
    """A reference that cannot be filled in; never with a value of the environment."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def fill_text(text: str, environment: Mapping[str, str]) -> str:
    """The text with every reference replaced by its value."""
    return _REFERENCE.sub(lambda match: _referenced(match, environment), text)


def _referenced(match: re.Match[str], environment: Mapping[str, str]) -> str:
    name, default = match["name"], match["default"]
    if match[0] == "$${":
        return "${"
    if name is None:
        raise ReferenceFillError("`${` must be followed by a name and `}`", "write `$${` for a literal `${`")
    value = environment.get(name)
    if default is not None:
        return value or default
    if value is None:
        raise ReferenceFillError(
            f"the environment variable {name} is not set{did_you_mean(name, environment)}",
            f"set it, or give a default: ${{{name}:-value}}",
        )
    return value
