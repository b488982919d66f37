"""Collects the mistakes of several definitions, so that all of them are reported at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import DefinitionError, SeveralDefinitionsError


class Mistakes:
    """The mistakes found so far. One that several files run into, such as an error in a module, counts once."""

    def __init__(self) -> None:
        self._found: dict[str, DefinitionError] = {}

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep a DefinitionError of the block, so that what follows it is checked too."""
        try:
            yield
        except SeveralDefinitionsError as error:
            for each in error.errors:
                self._found.setdefault(each.text, each)
        except DefinitionError as error:
            self._found.setdefault(error.text, error)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._found)

    def raise_found(self) -> None:
        """Raise what was found, in the order of files and lines."""
        errors = sorted(self._found.values(), key=_place)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise SeveralDefinitionsError(errors)


def _place(error: DefinitionError) -> tuple[str, int, int]:
    at = error.location
    return (at.file, at.line or 0, at.column or 0) if at is not None else ("", 0, 0)
