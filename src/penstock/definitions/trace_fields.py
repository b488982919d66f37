"""Fields of SQL text that `spark.sql` fills in when it is called: `spark.sql("SELECT * FROM {rows}", rows=frame)`."""

from __future__ import annotations

import re

_FIELD = re.compile(r"\{\{|\}\}|\{(\w+)[^{}]*\}")
_NAME = "__penstock_argument_"


def with_names(text: str) -> str:
    """The text with a name in the place of each field, which may stand for rows, a column or a value."""
    return _FIELD.sub(lambda field: f"`{_NAME}{field[1]}`" if field[1] else field[0][0], text)


def is_field(name: str) -> bool:
    """Whether a name that is read is that of a field, and no table."""
    return name.startswith(_NAME)
