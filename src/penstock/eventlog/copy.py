"""Copying a log to another backend: every event in order, resumable, verified by count and checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.errors import VerificationError
from penstock.eventlog.codec import to_json, to_text
from penstock.eventlog.contract import START, Entry, EventLog, Position

_PAGE = 5000


@dataclass(frozen=True, slots=True)
class CopyResult:
    """How many events the source has, how many of them this call wrote, and the checksum of both logs."""

    events: int
    copied: int
    checksum: str


def copy_log(source: EventLog, target: EventLog, progress: Callable[[int], None] | None = None) -> CopyResult:
    """Copy every event that the source has now; run it again to resume after an interruption.

    The target must be empty or contain the beginning of the same log; this is checked before anything is written.
    """
    head = source.head(strict=True)
    start, present = _find_resume_point(source, target)
    copied = 0
    for page in _pages(source, start, head):
        target.append([entry.event for entry in page])
        copied += len(page)
        if progress is not None:
            progress(present + copied)
    expected, events = checksum(source, head)
    found, written = checksum(target, target.head(strict=True))
    if (expected, events) != (found, written):
        raise VerificationError(
            f"the copy has {written} events with checksum {found}; the source has {events} with {expected}",
            hint="another process may have written to the target; copy to an empty log (the source is unchanged)",
        )
    return CopyResult(events, copied, expected)


def checksum(log: EventLog, head: Position) -> tuple[str, int]:
    """A hash over all events up to a position, in order, and their number."""
    digest = hashlib.sha256()
    count = 0
    for page in _pages(log, START, head):
        count += len(page)
        for entry in page:
            digest.update(to_text(to_json(entry.event)).encode())
            digest.update(b"\n")
    return digest.hexdigest(), count


def _find_resume_point(source: EventLog, target: EventLog) -> tuple[Position, int]:
    """The position in the source up to which the target has the events, and their number."""
    last = target.select("SELECT event_id FROM penstock_event ORDER BY position DESC LIMIT 1", (), strict=True)
    if not last:
        return START, 0
    found = source.select("SELECT position FROM penstock_event WHERE event_id = ?", last[0], strict=True)
    present = target.select("SELECT count(*) FROM penstock_event")[0][0]
    before = source.select("SELECT count(*) FROM penstock_event WHERE position <= ?", found[0])[0][0] if found else 0
    if before != present:
        raise VerificationError(
            f"{target.uri} contains events that {source.uri} does not have", hint="copy to an empty log"
        )
    return Position(found[0][0]), present


def _pages(log: EventLog, after: Position, head: Position) -> Iterator[list[Entry]]:
    while after < head:
        page = [entry for entry in log.read(after, limit=_PAGE) if entry.position <= head]
        if not page:
            return
        yield page
        after = page[-1].position
