"""Parts of a file, as ranges of offsets."""

from __future__ import annotations

from collections.abc import Sequence


def between(covered: Sequence[range], size: int) -> list[range]:
    """The parts of a file that nothing covers."""
    gaps, place = [], 0
    for body in sorted(covered, key=lambda each: each.start):
        if body.start > place:
            gaps.append(range(place, body.start))
        place = max(place, body.stop)
    if place < size:
        gaps.append(range(place, size))
    return gaps
