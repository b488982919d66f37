"""Finds all needles in a block of bytes in one pass, in every encoding, and says whether each is a whole token."""

from __future__ import annotations

import base64
import codecs
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ahocorasick_rs import BytesAhoCorasick, Implementation

from penstock.maintenance.scan.escapes import readings
from penstock.maintenance.scan.needles import Needle, Survivors, find_beginning, is_cut_from
from penstock.maintenance.scan.patterns import (
    BASE64_CHARACTERS,
    CODECS,
    FROM_URL,
    Encoding,
    Pattern,
    longest_of,
    make_patterns,
)
from penstock.maintenance.scan.tokens import CONTEXT, is_separate, is_whole

_DENSE_BYTES = 500_000
"""Up to this many bytes of patterns the automaton is a table of all transitions: twice as fast, for about 400 bytes each."""
_DECOYS = [hashlib.sha256(bytes([number])).digest()[:16] for number in range(16)]
"""Patterns that no file has. With them, no few bytes are in all patterns: the library would look for those bytes first, which
takes four times as long wherever they are frequent.
"""
_ESCAPED = 12
"""How much longer a value can get by escapes: `%255Cu00e4`."""
_LATIN_END = "\u0100"
_GROUPS = 4
"""Groups of base64 that are decoded on each side of an occurrence."""


@dataclass(frozen=True, slots=True)
class Match:
    """An occurrence of a needle in a block."""

    needle: int
    start: int
    """Where it begins in the block; in another reading of the block, where it begins in that."""
    form: str
    is_whole: bool
    """Whether it is a whole token."""
    is_separate: bool
    """Whether no letter or digit touches it."""
    is_beginning: bool = False
    """Only the part of the value that truncated statistics keep."""
    is_escaped: bool = False
    """Found in another reading of the block, so that the offset is not one of the block."""


class Searcher:
    """Searches blocks of bytes. Used by several threads at a time: the automaton releases the interpreter's lock."""

    def __init__(self, needles: Sequence[Needle], skipped: frozenset[int], survivors: Survivors) -> None:
        patterns = [
            pattern
            for number, needle in enumerate(needles)
            if number not in skipped
            for pattern in make_patterns(number, needle)
        ]
        self.survivors = survivors
        self.beginnings = [pattern for pattern in patterns if pattern.is_beginning]
        self._cuts = _by_beginning(patterns)
        self._cut_lengths = sorted({len(beginning) for beginning in self._cuts})
        self.searched = frozenset(pattern.needle for pattern in patterns)
        self.overlap = longest_of(patterns) * _ESCAPED + 4 * CONTEXT
        self._automaton = _Automaton(patterns)
        self._has_quotes = any('"' in pattern.text for pattern in patterns)

    def search(self, block: bytes, *, is_first: bool = True, is_last: bool = True) -> list[Match]:
        """Every occurrence in a block, in all readings of it.

        A block that is not the first or last of its file leaves out what touches that edge: blocks overlap by `overlap`,
        so that the neighbour block has it with its context.
        """
        if not self.searched:
            return []
        found = list(self._search(block, is_first=is_first, is_last=is_last))
        known = {_essence(match) for match in found}
        for form, reading in self._readings(block):
            for match in self._search(reading, is_first=is_first, is_last=is_last):
                if _essence(match) not in known:  # most are what the block itself has, between other escapes
                    known.add(_essence(match))
                    named = form if match.form == Encoding.UTF8 else f"{form} {match.form}"
                    found.append(replace(match, form=named, is_escaped=True))
        return found

    def _readings(self, block: bytes) -> Iterator[tuple[str, bytes]]:
        yield from readings(block)
        if self._has_quotes and b'""' in block:
            unquoted = block.replace(b'""', b'"')
            yield "CSV-quoted", unquoted
            yield from readings(unquoted)

    def find_truncated(self, statistic: str) -> frozenset[int]:
        """The needles that a statistic is a truncated beginning of, unless a remaining row explains it."""
        candidates = (self._cuts.get(statistic[:length], ()) for length in self._cut_lengths)
        found = {needle for each in candidates for text, needle in each if is_cut_from(statistic, text)}
        return frozenset() if not found or self.survivors.explain(statistic) else frozenset(found)

    def _search(self, block: bytes, *, is_first: bool, is_last: bool) -> Iterator[Match]:
        lowest = 0 if is_first else CONTEXT
        highest = len(block) if is_last else len(block) - CONTEXT
        for pattern, start, end in self._automaton.find(block):
            if start >= lowest and end <= highest and (match := _judge(block, pattern, start, end)):
                yield match


def _essence(match: Match) -> tuple[int, bool, bool, bool]:
    return match.needle, match.is_whole, match.is_separate, match.is_beginning


def _by_beginning(patterns: Sequence[Pattern]) -> dict[str, list[tuple[str, int]]]:
    found: dict[str, list[tuple[str, int]]] = {}
    for pattern in patterns:
        beginning = find_beginning(pattern.text)
        if pattern.encoding == Encoding.UTF8 and not pattern.is_beginning and beginning is not None:
            found.setdefault(beginning, []).append((pattern.text, pattern.needle))
    return found


class _Automaton:
    """Finds many patterns at once (Aho-Corasick)."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = patterns
        total = sum(len(pattern.content) for pattern in patterns)
        kind = Implementation.DFA if total <= _DENSE_BYTES else Implementation.ContiguousNFA
        contents = [pattern.content for pattern in patterns]
        self._automaton = BytesAhoCorasick([*contents, *_DECOYS], implementation=kind)

    def find(self, block: bytes) -> Iterator[tuple[Pattern, int, int]]:
        for index, start, end in self._automaton.find_matches_as_indexes(block, overlapping=True):
            if index < len(self._patterns):
                yield self._patterns[index], start, end


def _judge(block: bytes, pattern: Pattern, start: int, end: int) -> Match | None:
    if pattern.encoding == Encoding.BASE64:
        context = _decode_around(block, pattern, start)
        if context is None:
            return None
        before, after = context
    else:
        codec = CODECS.get(pattern.encoding, "utf-8")
        left = block[max(0, start - CONTEXT) : start]
        is_wide = codec.startswith("utf-16")
        if is_wide and len(left) % 2:  # the first byte of the block is one half of a character
            left = b"\0" + left
        before = left.decode(codec, errors="ignore")
        after = block[end : end + CONTEXT].decode(codec, errors="ignore")
        if is_wide:  # other bytes around it would look like letters of many scripts
            before, after = _only_latin(before), _only_latin(after)
    return Match(
        pattern.needle,
        start,
        pattern.encoding.value,
        is_whole(before, pattern.text, after),
        is_separate(before, pattern.text, after),
        pattern.is_beginning,
    )


def _only_latin(text: str) -> str:
    return "".join(character if character < _LATIN_END else " " for character in text)


def _decode_around(block: bytes, pattern: Pattern, start: int) -> tuple[str, str] | None:
    """What stands before and after a value in base64; None when its first or last bits are those of another value."""
    group = start - pattern.skipped
    if group < 0 or not BASE64_CHARACTERS.issuperset(block[group:start]):
        return None
    first = group
    while first >= max(4, group - 4 * _GROUPS + 4) and BASE64_CHARACTERS.issuperset(block[first - 4 : first]):
        first -= 4
    last = end = start + len(pattern.content)
    while last < min(len(block), end + 4 * _GROUPS) and block[last] in BASE64_CHARACTERS:
        last += 1
    encoded = block[first:last].translate(FROM_URL)
    if len(encoded) % 4 == 1:  # a character of something else
        encoded = encoded[:-1]
    decoded = base64.b64decode(encoded + b"=" * (-len(encoded) % 4))
    place = (group - first) // 4 * 3 + pattern.skipped * 6 // 8
    after = place + len(pattern.plain)
    if decoded[place:after] != pattern.plain:
        return None
    return _only_text(decoded[max(0, place - CONTEXT) : place]), _only_text(decoded[after : after + CONTEXT])


def _only_text(content: bytes) -> str:
    """Decoded bytes beside a value if they are text: other letters beside base64 become bytes that make no sense."""
    start = 0
    while start < min(3, len(content)) and content[start] & 0xC0 == 0x80:  # the rest of a character
        start += 1
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(content[start:])
    except UnicodeDecodeError:
        return ""
    return text if all(character.isprintable() or character.isspace() for character in text) else ""
