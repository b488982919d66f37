"""Values taken out of Spark's log files in the state folder: a message of an error may have a row in it. No JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ahocorasick_rs import BytesAhoCorasick

from penstock.maintenance.scan.needles import BEGINNING

_BLOCK = 16 << 20


def redact_logs(folder: Path, texts: Sequence[str]) -> int:
    """Overwrite these texts, and what a truncated statistic keeps of them, by asterisks; gives the number of files changed.

    A file keeps its size, so that a running JVM can go on appending to it.
    """
    patterns = sorted({part.encode() for text in texts for part in (text, text[:BEGINNING]) if part}, key=len)
    if not patterns:
        return 0
    search = BytesAhoCorasick(patterns)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return sum(_redact(path, search, len(patterns[-1])) for path in files)


def _redact(path: Path, search: BytesAhoCorasick, longest: int) -> bool:
    found = list(_find(path, search, longest))
    if found:
        with path.open("r+b") as stream:
            for start, end in found:
                stream.seek(start)
                stream.write(b"*" * (end - start))
    return bool(found)


def _find(path: Path, search: BytesAhoCorasick, longest: int) -> Iterator[tuple[int, int]]:
    """Where the patterns are, block by block; blocks overlap by the longest one."""
    with path.open("rb") as stream:
        offset, kept = 0, b""
        while part := stream.read(_BLOCK):
            block = kept + part
            for _, start, end in search.find_matches_as_indexes(block, overlapping=True):
                yield offset + start, offset + end
            kept = block[-(longest - 1) :] if longest > 1 else b""
            offset += len(block) - len(kept)
