"""What was found in one file, and the parts of a scan that every reader of a format needs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.maintenance.scan.columns import FileColumns
from penstock.maintenance.scan.search import Match, Searcher

COLUMN_VALUE = "column value"
TRUNCATED = "truncated statistic"
_MOST_POSITIONS = 20
_MOST_INSIDE = 100


@dataclass
class Findings:
    """Collects what a reader finds in one file."""

    searcher: Searcher
    columns: FileColumns
    hits: dict[tuple[str, int], str] = field(default_factory=dict)
    """The form of each hit, by position and needle."""
    inside: dict[tuple[str, int], str] = field(default_factory=dict)
    undecoded: list[str] = field(default_factory=list)
    methods: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Bytes by the way they were searched."""
    _counts: Counter[int] = field(default_factory=Counter)

    def add(self, where: str, needle: int, form: str) -> None:
        """A needle is there. Of the same needle, only the first positions in a file are kept."""
        if (where, needle) not in self.hits and self._counts[needle] < _MOST_POSITIONS:
            self._counts[needle] += 1
            self.hits[where, needle] = form

    def add_values(self, where: str, needles: Iterable[int]) -> None:
        """Needles are there as values of declared columns."""
        for needle in needles:
            self.add(where, needle, COLUMN_VALUE)

    def add_from_text(self, matches: Iterable[Match], where: str | Callable[[Match], str]) -> None:
        """Occurrences in a text: whole tokens count. The beginning of a value counts only in a statistic."""
        for match in matches:
            if not match.is_beginning:
                place = where if isinstance(where, str) else where(match)
                self.add(place, match.needle, match.form) if match.is_whole else self.add_inside(place, match)

    def add_from_bytes(self, matches: Iterable[Match], where: str | Callable[[Match], str]) -> None:
        """Occurrences in bytes whose values cannot be told apart: all count, unexplained beginnings too."""
        for match in sorted(matches, key=lambda match: match.is_beginning):
            form = f"beginning, {match.form}" if match.is_beginning else match.form
            if not match.is_beginning or not self._is_explained(match):
                self.add(where if isinstance(where, str) else where(match), match.needle, form)

    def add_inside(self, where: str, match: Match) -> None:
        """A needle is part of a longer value."""
        if len(self.inside) < _MOST_INSIDE:
            self.inside.setdefault((where, match.needle), match.form)

    def check_statistic(self, where: str, statistic: str) -> None:
        """A statistic counts when it is the truncated beginning of a needle and no remaining row explains it."""
        for needle in self.searcher.find_truncated(statistic):
            self.add(where, needle, TRUNCATED)

    def _is_explained(self, match: Match) -> bool:
        return any(
            pattern.needle == match.needle and self.searcher.survivors.explain(pattern.text)
            for pattern in self.searcher.beginnings
        )
