"""What a user declares about a table must be there."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import SourceError
from penstock.model.evidence import Declared
from penstock.model.nearest import nearest_hint


def check_declared(table: str, columns: Sequence[str], declared: Declared) -> None:
    """SourceError when a declared key or cursor is not a column of the table."""
    for name in (*declared.keys, *([declared.cursor] if declared.cursor else [])):
        if name not in columns:
            hint = f"{nearest_hint(name, columns)}it has {', '.join(columns[:20])}"
            raise SourceError(f"{table} has no column {name!r}", hint=hint)
