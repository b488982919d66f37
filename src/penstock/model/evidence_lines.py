"""Evidence in plain English: a line for each thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.cursor_trust import Verdict, show_seconds
from penstock.model.evidence import CursorEvidence, Evidence
from penstock.model.wording import counted, show_bytes


@dataclass(frozen=True, slots=True)
class Line:
    """What was looked at, and what was found."""

    what: str
    found: str


def show_rows(evidence: Evidence, *, bare: bool = False) -> str:
    """The number of rows for people: `40,000 rows`, `about 1.2M rows`; `bare` gives the number alone."""
    if evidence.rows is None:
        return "an unknown number" if bare else "an unknown number of rows"
    number = show_count(evidence.rows)
    if bare:
        return number
    return f"{'' if evidence.is_exact else 'about '}{number} {'row' if evidence.rows == 1 else 'rows'}"


def show_count(count: int) -> str:
    """A number for people: exact below a million, then `1.2M`."""
    for unit, size in (("B", 10**9), ("M", 10**6)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return f"{count:,}"


def show_evidence(evidence: Evidence, verdicts: tuple[Verdict, ...]) -> tuple[Line, ...]:
    """Everything that was found, in the order of the matrix."""
    size = f", {show_bytes(evidence.bytes)}" if evidence.bytes is not None else ""
    how = "" if evidence.rows is None else " (counted)" if evidence.is_exact else " (estimate)"
    lines = [Line("size", f"{show_rows(evidence)}{how}{size}"), Line("key", _show_key(evidence))]
    lines += [Line(f"cursor {verdict.cursor.column}", _show_cursor(verdict)) for verdict in verdicts]
    if not verdicts:
        lines.append(Line("cursor", "no column of a type that a cursor can have"))
    lines.append(Line("change feed", _show_feed(evidence)))
    lines.append(Line("writes", _show_activity(evidence)))
    if verdicts:
        lines.append(Line("late commits", evidence.late_commits or "bounded by the start of the oldest transaction"))
    if declared := _show_declared(evidence):
        lines.append(Line("declared", declared))
    return tuple(lines)


def _show_key(evidence: Evidence) -> str:
    if not evidence.keys:
        return "none: no primary key, and no unique key without NULLs"
    source = "declared" if evidence.declared.keys else "primary key" if evidence.primary_key else "unique"
    return f"{', '.join(evidence.keys)} ({source})"


def _show_cursor(verdict: Verdict) -> str:
    trust = "trusted" if verdict.is_trusted else "not trusted"
    because = verdict.reasons if verdict.is_trusted else verdict.doubts
    facts = "; ".join([verdict.cursor.type.value, *_cursor_facts(verdict.cursor)])
    return f"{trust}: {', '.join(because)} ({facts})"


def _cursor_facts(cursor: CursorEvidence) -> list[str]:
    facts = ["indexed" if cursor.is_indexed else "no index"]
    if cursor.null_share is not None:
        facts.append("no NULLs" if cursor.null_share == 0 else f"{cursor.null_share:.1%} NULLs")
    if cursor.distinct is not None:
        facts.append(f"about {counted_values(cursor.distinct)}")
    if cursor.top_share is not None:
        facts.append(f"at most {cursor.top_share:.1%} of the rows tie")
    if cursor.correlation is not None:
        facts.append(f"follows the order of the rows by {cursor.correlation:.2f}")
    if cursor.is_now_by_default:
        facts.append("set to the time of the insert by default")
    if cursor.ahead_seconds is not None and cursor.ahead_seconds >= 1:
        facts.append(f"up to {show_seconds(cursor.ahead_seconds)} in the future")
    return facts


def counted_values(count: int) -> str:
    """A number of different values."""
    return "1 value" if count == 1 else f"{show_count(count)} values"


def _show_feed(evidence: Evidence) -> str:
    feed = evidence.feed
    if feed is None:
        return "none"
    if feed.obstacles:
        return f"no {feed.name}: {', '.join(feed.obstacles)}"
    return f"{feed.name} is available" + ("" if feed.is_readable else "; Penstock cannot read it yet")


def _show_activity(evidence: Evidence) -> str:
    seen = evidence.activity
    if seen is None:
        return "not counted by the source"
    if not seen.is_known:
        return "none since the source began to count"
    parts = (("insert", seen.inserted), ("update", seen.updated), ("delete", seen.deleted))
    return ", ".join(f"{show_count(n)} {noun}s" if n != 1 else counted(1, noun) for noun, n in parts)


def _show_declared(evidence: Evidence) -> str:
    declared = evidence.declared
    parts = ["critical"] if declared.is_critical else []
    parts += ["one-time history"] if declared.is_history else []
    parts += [f"keys {', '.join(declared.keys)}"] if declared.keys else []
    parts += [f"cursor {declared.cursor}"] if declared.cursor else []
    return ", ".join(parts)
