"""What a scan looks for: values that must be gone, where they may be columns, and what the remaining rows share with them.

No text that is printed has a value in it: `repr` leaves values out, and results name a needle by its number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

BEGINNING = 31
"""Characters that every truncated statistic keeps: Delta truncates at 32 and may replace the last one."""

_BEGINNING_BYTES = 60
"""The same in bytes: Parquet writers truncate at 64, which may be 16 characters, and may replace the last one."""

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


class Role(StrEnum):
    """What a needle is to the person that was erased."""

    KEY = "key"
    """It identifies the person, so that it is always searched."""
    PERSONAL = "personal"
    """It belongs to the person; it is not searched when a remaining row has the same value."""


@dataclass(frozen=True, slots=True)
class Column:
    """A declared column: its path of names, and where it counts. Names are compared without regard to case."""

    parts: tuple[str, ...]
    place: str | None = None
    """Only at the place of this name; None means every place."""
    folder: str = ""
    """Only in files below this folder of the place."""


def parse_column(text: str, *, place: str | None = None, folder: str = "") -> Column:
    """A column from its dotted name; backquotes keep a dot inside a name: `` `a.b`.c `` has two parts."""
    parts = tuple((quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(text))
    return Column(parts, place, folder.strip("/"))


@dataclass(frozen=True, slots=True)
class Needle:
    """One value to look for."""

    text: str = field(repr=False)
    """Its canonical text."""
    values: tuple[object, ...] = field(default=(), repr=False)
    """The value as the tables had it: text in other spellings, numbers, dates, bytes."""
    columns: tuple[Column, ...] = ()
    role: Role = Role.KEY


@dataclass(frozen=True, slots=True)
class Survivors:
    """What the rows that stay have in common with the needles."""

    shared: frozenset[str] = field(default=frozenset(), repr=False)
    """Canonical texts of needles that a remaining row also has."""
    beginnings: frozenset[str] = field(default=frozenset(), repr=False)
    """What values of remaining rows begin with: 31 characters at least. More characters explain fewer statistics."""

    def explain(self, statistic: str) -> bool:
        """Whether a truncated statistic can come from a value of a remaining row."""
        kept = max(len(statistic) - 1, min(len(statistic), BEGINNING))
        return any(
            len(beginning) >= min(kept, BEGINNING) and beginning[:kept] == statistic[: min(kept, len(beginning))]
            for beginning in self.beginnings
        )


NOBODY = Survivors()


def find_beginning(text: str) -> str | None:
    """The part of a text that a truncated statistic keeps in any case; None when the text is too short to be truncated."""
    beginning = text[:BEGINNING].encode()[:_BEGINNING_BYTES].decode(errors="ignore")
    return beginning if len(text) > len(beginning) else None


def is_cut_from(statistic: str, text: str) -> bool:
    """Whether a statistic can be the truncated beginning of this text, which is longer than what is always kept.

    The last character may differ: a writer that truncates a maximum makes it greater than the value, by a larger or an
    additional last character.
    """
    beginning = find_beginning(text)
    if beginning is None or statistic == text:
        return False
    kept = len(statistic) - 1
    return kept >= len(beginning) and text.startswith(statistic[:kept])
