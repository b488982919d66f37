"""The matrix of load strategies: when each one fits a table, why, and what would have to change for it to fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.model.cursor_trust import Verdict
from penstock.model.evidence import Evidence
from penstock.model.evidence_lines import show_rows
from penstock.model.loads import Strategy

SMALL = 100_000
"""Rows from which a full refresh is no longer the first choice."""


class Method(StrEnum):
    """What the advisor can recommend."""

    BACKFILL = "backfill"
    CDC = "cdc"
    FULL_REFRESH = "full_refresh"
    TIMESTAMP = "timestamp"
    SNAPSHOT = "snapshot"

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        return _WORDS[self]

    @property
    def strategy(self) -> Strategy:
        """The strategy of a load that does it."""
        return _STRATEGIES.get(self, Strategy.AUTO)


_WORDS = {
    Method.BACKFILL: "a parallel backfill",
    Method.CDC: "change data capture",
    Method.FULL_REFRESH: "a full refresh",
    Method.TIMESTAMP: "a timestamp load",
    Method.SNAPSHOT: "a snapshot comparison",
}
_STRATEGIES = {
    Method.BACKFILL: Strategy.FULL_REFRESH,
    Method.FULL_REFRESH: Strategy.FULL_REFRESH,
    Method.TIMESTAMP: Strategy.TIMESTAMP,
    Method.SNAPSHOT: Strategy.SNAPSHOT,
}


@dataclass(frozen=True, slots=True)
class Case:
    """The evidence, and the verdicts that several rules ask for."""

    evidence: Evidence
    verdicts: tuple[Verdict, ...]

    @property
    def is_small(self) -> bool:
        """Whether it is known to have few rows."""
        rows = self.evidence.rows
        return rows is not None and rows < SMALL

    @property
    def trusted(self) -> Verdict | None:
        """The best cursor, if it is trusted."""
        return next((verdict for verdict in self.verdicts if verdict.is_trusted), None)

    @property
    def only_appends(self) -> bool:
        """Whether rows were seen to be inserted, and never to be updated or deleted."""
        seen = self.evidence.activity
        return seen is not None and seen.is_known and not seen.updated and not seen.deleted

    @property
    def rows(self) -> str:
        """How many rows there are, in words."""
        return show_rows(self.evidence)


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the matrix: when it fits, why, and what would have to change for it to fit."""

    method: Method
    fits: Callable[[Case], bool]
    why: Callable[[Case], str]
    otherwise: Callable[[Case], str | None]


def _offers_feed(case: Case) -> bool:
    feed = case.evidence.feed
    return feed is not None and feed.is_offered and bool(case.evidence.keys)


def _feed_missing(case: Case) -> str | None:
    feed = case.evidence.feed
    if feed is None:
        return None
    missing = [*feed.obstacles, *([] if case.evidence.keys else ["the table has no key"])]
    if missing:
        return f"With {feed.name}, every change and delete could be read as it happens, but {join(missing)}."
    if not feed.is_readable:
        return f"When Penstock can read {feed.name}, change data capture replaces this strategy."
    return None


def _small_missing(case: Case) -> str | None:
    if case.evidence.rows is None:
        return f"When the table turns out to have fewer than {SMALL:,} rows, a full refresh would be simplest."
    return f"Below {SMALL:,} rows ({case.rows} now), a full refresh would be simplest."


def _follows_cursor(case: Case) -> bool:
    return case.trusted is not None and (bool(case.evidence.keys) or case.only_appends)


def _why_timestamp(case: Case) -> str:
    verdict = case.trusted
    if verdict is None:
        return ""
    size = f"{_large(case)} too many to read in every run" if case.evidence.rows else "The number of rows is unknown"
    return f"{size}, and {verdict.cursor.column} can be trusted to show what is new: {join(verdict.reasons)}."


def _timestamp_missing(case: Case) -> str:
    if case.trusted is not None:
        return f"With a key (`keys=[...]`), only rows with a new {case.trusted.cursor.column} would be read."
    if case.verdicts:
        verdict = case.verdicts[0]
        return (
            f"With a trusted timestamp, only new rows would be read; {verdict.cursor.column} is not trusted: "
            f"{join(verdict.doubts)}. Declare it (`cursor=`) if you know better."
        )
    return "With a timestamp that every insert and update sets, only new rows would be read; the table has none."


def _why_snapshot(case: Case) -> str:
    size = (
        f"{_large(case)} too many to rewrite"
        if case.evidence.rows is not None
        else "The table may be too large to rewrite"
    )
    lack = "no column can be trusted to show what is new"
    return f"{size} in every run, and {lack}: rows are compared by {join(case.evidence.keys)}."


def _large(case: Case) -> str:
    return f"{case.rows[0].upper()}{case.rows[1:]} are"


MATRIX = (
    Rule(
        Method.BACKFILL,
        lambda case: case.evidence.declared.is_history,
        lambda case: f"You declared it as one-time history: {case.rows} are loaded once, in parallel chunks.",
        lambda _: None,
    ),
    Rule(
        Method.CDC,
        _offers_feed,
        lambda case: (
            f"The source offers {case.evidence.feed.name if case.evidence.feed else 'a change feed'}, "
            "which shows every change and delete in order."
        ),
        _feed_missing,
    ),
    Rule(
        Method.FULL_REFRESH,
        lambda case: case.is_small,
        lambda case: (
            f"The table is small: {case.rows}, fewer than {SMALL:,}. Reading all of it is cheap and sees "
            "every update and delete."
        ),
        _small_missing,
    ),
    Rule(Method.TIMESTAMP, _follows_cursor, _why_timestamp, _timestamp_missing),
    Rule(
        Method.SNAPSHOT,
        lambda case: bool(case.evidence.keys),
        _why_snapshot,
        lambda _: "With a key (`keys=[...]`), rows could be compared, and only the differences written.",
    ),
    Rule(
        Method.FULL_REFRESH,
        lambda _: True,
        lambda case: (
            f"Without a key, rows cannot be compared or merged: all of the table ({case.rows}) is read in every run."
        ),
        lambda _: None,
    ),
)


def join(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1] if parts else ""
