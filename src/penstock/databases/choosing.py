"""Which columns a load reads: they must exist, and hold values that can be loaded exactly."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.databases.contract import Look, SourceColumn
from penstock.errors import SourceError
from penstock.model.nearest import nearest_hint


def find_column(look: Look, name: str, shown: str) -> SourceColumn:
    """A column by its name, exactly as the source has it."""
    for column in look.columns:
        if column.name == name:
            return column
    known = [column.name for column in look.columns]
    raise SourceError(
        f"{shown} has no column {name!r}", hint=f"{nearest_hint(name, known)}it has {', '.join(known[:20])}"
    )


def choose_columns(look: Look, names: Iterable[str], shown: str) -> tuple[SourceColumn, ...]:
    """The columns with these names; refused when one of them has no type that holds its values exactly."""
    found = tuple(find_column(look, name, shown) for name in names)
    for column in found:
        if column.type is None:
            raise SourceError(
                f"column {column.name!r} of {shown} ({column.native}) cannot be loaded: {column.problem}",
                hint="cast it in a view and load that, or leave it out with columns=",
            )
    return found
