"""Records of a text file in blocks: every value as the text that stands in the file, with the line where its record starts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import RawFileError
from penstock.storage.raw_files import problems_named

LONGEST_RECORD = 1 << 26
"""A record with more bytes is refused: a quote that does not end would make the rest of a file one value."""
LINE_TEXT = "_line"
"""The field, in a row of the quarantine, with the text of a record whose fields are not known."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A record that cannot be read."""

    line: int
    problem: str
    """What is wrong with it, without a value of it."""
    fields: Mapping[str, str | None]
    """Its fields as far as they are known, or its text."""
    hint: str = "fix the record"


@dataclass(frozen=True, slots=True)
class TextColumn:
    """The values of one column in a block, as text; NULL where there is none."""

    values: Any
    """An Arrow array of strings."""
    is_string: bool = False
    """Some value is a string in JSON: no other type is inferred for it."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some records of a file, one after another."""

    rows: int
    columns: Mapping[str, TextColumn]
    """By name; a column that no record of the block has may be missing."""
    lines: Any
    """A NumPy array with the line where each record starts, from 1 on."""
    bad: tuple[BadRow, ...] = field(default=())


def refuse(path: str, problem: str, hint: str, line: int | None = None) -> RawFileError:
    """The error about a raw text file, which names the file and the line."""
    place = f"raw file {path}" + (f", line {line}" if line is not None else "")
    return RawFileError(f"{place}: {problem}", hint=hint)


def named_reading(path: str) -> AbstractContextManager[None]:
    """Turn errors of reading a text file into one that names it, without quoting its content."""
    return problems_named(path, lambda _: "is damaged, or compressed in another way than its name says")
