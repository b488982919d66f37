"""How messages say what they have to say often."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """So many of something: `1 file`, `2 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
