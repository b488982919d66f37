"""Whether a column can be trusted to show what is new: a load that follows a wrong one loses rows without a sign."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.model.evidence import CursorEvidence, CursorType, Evidence

MOST_NULLS = 0.05
"""A cursor with a greater share of NULLs is not trusted: those rows are read again in every load, or not at all."""
MOST_TIES = 0.5
"""When more rows share one value, nothing shows that the column moves."""
MOST_AHEAD = 3600.0
"""Seconds that the greatest value may lie in the future."""
_SAYS_UPDATED = re.compile(r"updat|modif|chang|touch|last_?(write|edit|save)|sysmod|mtime|revis", re.IGNORECASE)
_SAYS_CREATED = re.compile(r"creat|insert|birth|added|order_?date|signup|regist", re.IGNORECASE)
_UNTRUSTED_TYPES = {
    CursorType.DATE: "it is a date: all changes of one day tie",
    CursorType.NUMBER: "it is a number: nothing shows that updates raise it",
    CursorType.TEXT: "it is text: nothing shows that updates raise it",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a cursor is trusted, with the reasons for it and the doubts."""

    cursor: CursorEvidence
    reasons: tuple[str, ...]
    doubts: tuple[str, ...]
    is_declared: bool = False

    @property
    def is_trusted(self) -> bool:
        """A declared cursor is trusted: its doubts are warnings."""
        return self.is_declared or not self.doubts

    @property
    def rank(self) -> tuple[bool, bool, bool, bool, float]:
        """The best cursor has the greatest rank."""
        column = self.cursor
        return (
            self.is_declared,
            column.update_trigger is not None,
            says_updated(column.column),
            column.is_indexed,
            -(column.null_share or 0.0),
        )


def says_updated(column: str) -> bool:
    """Whether a name promises the time of the last update."""
    return bool(_SAYS_UPDATED.search(column))


def judge_cursors(evidence: Evidence) -> tuple[Verdict, ...]:
    """A verdict about every candidate, the best first."""
    verdicts = [_judge(cursor, evidence) for cursor in evidence.cursors]
    return tuple(sorted(verdicts, key=lambda verdict: (verdict.is_trusted, verdict.rank), reverse=True))


def _judge(cursor: CursorEvidence, evidence: Evidence) -> Verdict:
    followed, unfollowed = _follows_updates(cursor, evidence)
    doubts = [*_type_doubts(cursor), *_value_doubts(cursor), *unfollowed]
    is_declared = cursor.column == evidence.declared.cursor
    reasons = ["you declared it", *followed] if is_declared else followed
    return Verdict(cursor, tuple(reasons), tuple(doubts), is_declared)


def _follows_updates(cursor: CursorEvidence, evidence: Evidence) -> tuple[list[str], list[str]]:
    """Why an update is believed to move the cursor, or why it is not."""
    activity = evidence.activity
    if cursor.update_trigger is not None:
        return [f"the trigger {cursor.update_trigger} sets it on every update"], []
    if activity is not None and activity.is_known and activity.updated == 0:
        return ["rows are inserted and never updated, as far as the source has counted"], []
    if says_updated(cursor.column):
        return ["its name promises the time of the last update"], []
    updates = f"{activity.updated:,} updates were counted, and " if activity and activity.updated else ""
    what = "its name promises only the time of the insert" if _SAYS_CREATED.search(cursor.column) else ""
    return [], [f"{updates}{what or 'nothing shows that an update changes it'}"]


def _type_doubts(cursor: CursorEvidence) -> list[str]:
    return [_UNTRUSTED_TYPES[cursor.type]] if cursor.type in _UNTRUSTED_TYPES else []


def _value_doubts(cursor: CursorEvidence) -> list[str]:
    doubts = []
    if cursor.null_share is not None and cursor.null_share > MOST_NULLS:
        doubts.append(f"{cursor.null_share:.0%} of the rows have NULL in it")
    if cursor.top_share is not None and cursor.top_share > MOST_TIES and cursor.update_trigger is None:
        doubts.append(f"{cursor.top_share:.0%} of the rows share one value, so nothing shows that it moves")
    if cursor.ahead_seconds is not None and cursor.ahead_seconds > MOST_AHEAD:
        doubts.append(f"its greatest value lies {show_seconds(cursor.ahead_seconds)} in the future")
    return doubts


def show_seconds(seconds: float) -> str:
    """A length of time for people: the greatest unit that fits."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = round(seconds / size)
            return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"
    return f"{round(seconds)} seconds"
