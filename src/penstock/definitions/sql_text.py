"""The text of a SQL file before it is parsed: variables filled in, with a mapping back to places in the user's file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.errors import DefinitionError, Location
from penstock.model.nearest import nearest_hint
from penstock.model.project import Scalar

HOLE = "\ufdd0"
"""Stands in a text for a part that only a run knows; a character that never occurs in text."""

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_QUOTED = r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`"""
_COMMENT = r"--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/"
_PIECE = re.compile(rf"(?P<comment>{_COMMENT})|(?P<quoted>{_QUOTED})|(?P<variable>\$\{{[^{{}}]*\}})", re.DOTALL)
_UNCLOSED = re.compile(rf"{_COMMENT}|{_QUOTED}|(?P<open>['\"`]|/\*)", re.DOTALL)


class SqlSyntaxError(DefinitionError):
    """SQL that no parser could read, Spark's neither."""


class UnreadSqlError(DefinitionError):
    """SQL that our parser cannot read; Spark's may."""


@dataclass(frozen=True, slots=True)
class SqlText:
    """SQL with variables filled in; `shifts` map its places back to the user's text."""

    file: str
    original: str
    text: str
    shifts: tuple[tuple[int, int, int], ...] = ()
    """(start in `text`, length in `text`, start in `original` of what follows), in order."""

    def location(self, offset: int) -> Location:
        """The place in the user's file for an offset of the filled text."""
        return to_location(self.file, self.original, self._original_offset(offset))

    def filled(self) -> Iterator[tuple[str, str]]:
        """The variables in the text, as they are written there, with their values."""
        for start, length, end in self.shifts:
            name = self.original[self.original.rfind("$", 0, end) : end]
            if name.startswith("${"):
                yield name, self.text[start : start + length]

    def _original_offset(self, offset: int) -> int:
        moved = offset
        for start, length, original in self.shifts:
            if start > offset:
                break
            # A place inside a value is shown where the variable ends.
            moved = original + max(0, offset - start - length)
        return moved


def to_location(file: str, text: str, offset: int) -> Location:
    """The line and column of a place in a text, counted from 1."""
    before = text[: max(0, offset)]
    return Location(file, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def to_offset(text: str, place: Location | None) -> int:
    """The offset of a line and column in a text; the opposite of `to_location`."""
    if place is None:
        return 0
    lines = text.split("\n")[: (place.line or 1) - 1]
    return sum(len(line) + 1 for line in lines) + (place.column or 1) - 1


def to_file_place(file: str, literal: ast.Constant, place: Location) -> Location:
    """The place in a file of a place in the text of a literal, which starts after its quotes."""
    line = place.line or 1
    if line > 1 or literal.lineno != literal.end_lineno:
        return Location(file, literal.lineno + line - 1, place.column if line > 1 else literal.col_offset + 1)
    width = (literal.end_col_offset or 0) - literal.col_offset
    quotes = max(1, (width - len(str(literal.value))) // 2)
    return Location(file, literal.lineno, literal.col_offset + quotes + (place.column or 1))


def fill_variables(file: str, original: str, variables: Mapping[str, Scalar]) -> SqlText:
    """Replace `${name}` by the project's variables; not inside comments, so that an old comment breaks nothing."""
    parts: list[str] = []
    shifts: list[tuple[int, int, int]] = []
    done = length = 0
    for match in _variables(original):
        value = _value(match, file, original, variables)
        before = original[done : match.start()]
        parts += [before, value]
        shifts.append((length + len(before), len(value), match.end()))
        length += len(before) + len(value)
        done = match.end()
    return SqlText(file, original, "".join([*parts, original[done:]]), tuple(shifts))


def find_unclosed(text: str) -> int:
    """Where an unclosed quote or comment starts; the end of the text if there is none."""
    for match in _UNCLOSED.finditer(text):
        if match.group("open"):
            return match.start()
    return len(text)


def _variables(text: str) -> list[re.Match[str]]:
    found: list[re.Match[str]] = []
    for piece in _PIECE.finditer(text):
        if not piece.group("comment"):
            found += _VARIABLE.finditer(text, piece.start(), piece.end())
    return found


def _value(match: re.Match[str], file: str, text: str, variables: Mapping[str, Scalar]) -> str:
    name = match.group(1).strip()
    if name not in variables:
        raise DefinitionError(
            f"the project has no variable {name!r}",
            hint=f"{nearest_hint(name, variables)}add it under vars: in penstock.yml",
            location=to_location(file, text, match.start()),
        )
    value = variables[name]
    return str(value).lower() if isinstance(value, bool) else str(value)
