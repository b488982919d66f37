"""Where the records of a CSV text end and whether its quotes are certain, found by the places of its signs.

A quoted field starts right after a delimiter or a line end and ends right before one. Everything else that programs do with
quotes, such as `"ab"cd`, is read in different ways by different readers: such a record is not certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

_LF, _CR = 10, 13


def _is_one_of(signs: Any, wanted: Sequence[int]) -> Any:
    """Which of the signs are among these few: faster than `isin`, which sorts."""
    found = signs == wanted[0]
    for sign in wanted[1:]:
        found |= signs == sign
    return found


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV file is written: single bytes, and None for a sign that is not used."""

    delimiter: bytes
    quote: bytes | None
    escape: bytes | None = None
    """None: a quote inside a quoted field is doubled."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first place where quotes are not certain."""

    start: int
    """Where its record starts; all records before it are certain."""
    place: int
    problem: str
    is_open: bool = False
    """A quoted field does not end before the text does: it is not known where its record ends."""


@dataclass(frozen=True)
class Structure:
    """The structure of a part of a CSV text that starts with a record."""

    text: bytes
    dialect: Dialect
    is_end: bool
    """Nothing follows the text."""

    @cached_property
    def has_quotes(self) -> bool:
        return self.dialect.quote is not None and self.dialect.quote in self.text

    def head(self, size: int) -> Structure:
        """The structure of the first bytes, which are whole records: what is known of them is not looked for again."""
        found = Structure(self.text[:size], self.dialect, is_end=True)
        if self.has_quotes:
            found.__dict__["_quotes"] = self._quotes[: np.searchsorted(self._quotes, size)]
            found.__dict__["record_ends"] = self.record_ends[: np.searchsorted(self.record_ends, size, side="right")]
        return found

    def find_fault(self) -> Fault | None:
        """The first fault of quotes; None when all are certain. An open quote is a fault only at the end of a file."""
        if not self.has_quotes:
            return self._find_stray_escape()
        found = [fault for fault in (self._find_bad_quote(), self._find_stray_escape()) if fault is not None]
        return min(found, key=lambda fault: fault.place, default=None)

    def find_cut(self) -> int:
        """Where the last complete record ends."""
        if self.is_end:
            return len(self.text)
        if not self.has_quotes:
            return self.text.rfind(b"\n") + 1
        return int(self.record_ends[-1]) if len(self.record_ends) else 0

    @cached_property
    def record_ends(self) -> Any:
        """Behind the line end of each record; a last record without a line end is not among them."""
        return self._outside(self._find(b"\n")) + 1

    @cached_property
    def has_inner_line_ends(self) -> bool:
        """Whether a quoted field has a line end in it."""
        return self.has_quotes and len(self.record_ends) != self.text.count(b"\n")

    def split(self) -> tuple[Any, Any, Any]:
        """Every record: where it starts, where it ends (without its line end), and how many line ends are before it."""
        ends = self.record_ends
        if self.text and (not len(ends) or ends[-1] != len(self.text)):
            ends = np.append(ends, len(self.text))
        starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
        before = np.searchsorted(self._find(b"\n"), starts)
        bytes_ = self._bytes
        bare = ends - (bytes_[ends - 1] == _LF) if len(ends) else ends
        bare = bare - ((bare > starts) & (bytes_[np.maximum(bare - 1, 0)] == _CR) & (bare < len(self.text)))
        return starts, bare, before

    def count_fields(self, starts: Any, ends: Any) -> Any:
        """How many fields each record has."""
        places = self._outside(self._find(self.dialect.delimiter))
        return np.searchsorted(places, ends) - np.searchsorted(places, starts) + 1

    def find_stray_returns(self) -> Any:
        """The carriage returns outside of quotes that are not part of a line end."""
        places = self._outside(self._find(b"\r"))
        return places[self._signs_at(places + 1) != _LF]

    @cached_property
    def _bytes(self) -> Any:
        return np.frombuffer(self.text, np.uint8)

    def _signs_at(self, places: Any) -> Any:
        """The signs at these places; before the text and behind it are line ends."""
        is_inside = (places >= 0) & (places < len(self.text))
        found = np.full(len(places), _LF, np.uint8)
        found[is_inside] = self._bytes[places[is_inside]]
        return found

    def _find(self, sign: bytes) -> Any:
        return np.flatnonzero(self._bytes == sign[0])

    @cached_property
    def _escaped(self) -> Any:
        """The places of signs behind an escape that counts: in a run of escapes every second one is escaped itself."""
        if self.dialect.escape is None or self.dialect.escape not in self.text:
            return np.array([], np.int64)
        places = self._find(self.dialect.escape)
        is_first = np.append(True, np.diff(places) != 1)
        order = np.arange(len(places))
        in_run = order - np.maximum.accumulate(np.where(is_first, order, 0))
        return places[in_run % 2 == 0] + 1

    @cached_property
    def _quotes(self) -> Any:
        """The quotes that start and end something, in turn."""
        if self.dialect.quote is None:
            return np.array([], np.int64)
        found = self._find(self.dialect.quote)
        return found if not len(self._escaped) else found[~np.isin(found, self._escaped)]

    def _outside(self, places: Any) -> Any:
        """Those of these places that are not inside of quotes."""
        return places if not len(self._quotes) else places[np.searchsorted(self._quotes, places) % 2 == 0]

    def _find_bad_quote(self) -> Fault | None:
        """A quote that neither starts a field, nor ends one, nor is half of a doubled one."""
        opening, closing = self._quotes[0::2], self._quotes[1::2]
        pairs = max(len(opening) - 1, 0)
        is_doubled = np.zeros(len(closing), bool)
        if self.dialect.escape is None:  # a closing quote and an opening one right behind it are one quote of the value
            is_doubled[:pairs] = closing[:pairs] + 1 == opening[1:]
        edges = (self.dialect.delimiter[0], _LF)
        goes_on = np.append(False, is_doubled[:pairs])[: len(opening)]
        is_start = goes_on | _is_one_of(self._signs_at(opening - 1), edges)
        is_stop = is_doubled | _is_one_of(self._signs_at(closing + 1), (*edges, _CR))
        faults = [*opening[~is_start][:1], *closing[~is_stop][:1]]
        if faults:
            return self._blame(int(min(faults)), "its quotes are not escaped, or a quoted field does not end")
        if self.is_end and len(self._quotes) % 2:
            return replace(self._blame(len(self.text), "a quoted field does not end"), is_open=True)
        return None

    def _find_stray_escape(self) -> Fault | None:
        """An escape outside of quotes, or before a sign that needs none: readers disagree about its meaning."""
        escaped = self._escaped
        if not len(escaped) or self.dialect.escape is None or self.dialect.quote is None:
            return None
        known = (self.dialect.quote[0], self.dialect.escape[0])
        escaped = escaped[escaped < len(self.text)] if not self.is_end else escaped
        is_outside = np.searchsorted(self._quotes, escaped) % 2 == 0
        stray = escaped[is_outside | ~_is_one_of(self._signs_at(escaped), known)]
        return (
            self._blame(int(stray[0]) - 1, "an escape is not before a quote in a quoted field") if len(stray) else None
        )

    def _blame(self, place: int, problem: str) -> Fault:
        """The fault with the start of its record: up to there, quotes are certain."""
        before = np.searchsorted(self.record_ends, place, side="right")
        return Fault(int(self.record_ends[before - 1]) if before else 0, place, problem)
