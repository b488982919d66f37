"""Figures with their bars, and how a benchmark ends: every bar printed, all of it as JSON where asked, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure and what it must not pass."""

    name: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{'PASS' if self.holds else 'FAIL'}  {self.name:58} {self.value:8.3f} {sign} {self.limit:g}"


def report(figures: Mapping[str, Any], bars: Sequence[Bar], file: Path | None) -> int:
    """Print the bars, write everything to the file if there is one, and give the exit code; no bar at all is a failure."""
    print("", *bars, sep="\n")
    good = bool(bars) and all(bar.holds for bar in bars)
    if file:
        judged = [{**asdict(bar), "holds": bar.holds} for bar in bars]
        file.write_text(json.dumps({**figures, "bars": judged, "every bar holds": good}, indent=2) + "\n")
    print(json.dumps({"every bar holds": good}))
    return 0 if good else 1
