"""Where a word of a text begins and ends: a needle counts only if it is a whole token, not a part of a longer one.

A token is a sequence of word characters (letters, digits, combining marks, `_`), and of `.`, `-`, `+` and `@` between two
word characters. So `ann@example.org` is not in `mary.ann@example.org` or `ann@example.org.uk`, but it is in
`mailto:ann@example.org.` and in `"ann@example.org"`.
"""

from __future__ import annotations

import unicodedata

_JOINERS = ".-+@"

CONTEXT = 16
"""Bytes on each side of an occurrence that decide, in any encoding: two characters."""


def is_whole(before: str, text: str, after: str) -> bool:
    """Whether a text between two others begins and ends where tokens begin and end. Two characters of each side count."""
    return not _is_inside(before + text[:2], len(before)) and not _is_inside(text[-2:] + after, len(text[-2:]))


def is_separate(before: str, text: str, after: str) -> bool:
    """Whether a text is separate in a file name, where `-`, `.` and `_` separate too: no letter or digit touches it."""
    touches_before = bool(before) and before[-1].isalnum() and text[0].isalnum()
    touches_after = bool(after) and after[0].isalnum() and text[-1].isalnum()
    return not touches_before and not touches_after


def _is_inside(text: str, place: int) -> bool:
    """Whether a place between two characters is inside a token."""
    left, right = text[:place], text[place:]
    if not left or not right:
        return False
    if _is_word(left[-1]):
        return _is_word(right[0]) or (right[0] in _JOINERS and len(right) > 1 and _is_word(right[1]))
    return left[-1] in _JOINERS and len(left) > 1 and _is_word(left[-2]) and _is_word(right[0])


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"
