"""Records of JSON text: one object per line, or an array of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.maintenance.files.envelopes import DECODER, Row, rows_of
from penstock.maintenance.files.text_format import TextFormat
from penstock.maintenance.files.values import RecordError

IsGone = Callable[[Row], bool]
"""Whether a row belongs to a key that must go."""

_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Found:
    """What a piece of JSON text has: records, how many must go, and the ranges of signs to cut for that."""

    records: int
    removed: int
    cuts: tuple[tuple[int, int], ...] = ()


def scan_json(text: str, format_: TextFormat, is_gone: IsGone) -> Found:
    """A whole text: one object, or an array of objects. `null` is a record without content and stays."""
    start = _skip_space(text, 0)
    if start == len(text):
        return Found(0, 0)
    if text[start] == "[":
        return _scan_array(text, start, format_, is_gone)
    value, end = _decode(text, start)
    _check_end(text, end)
    gone = _is_gone(value, format_, is_gone, start)
    return Found(1, int(gone), ((start, end),) if gone else ())


def _scan_array(text: str, start: int, format_: TextFormat, is_gone: IsGone) -> Found:
    place = _skip_space(text, start + 1)
    elements: list[tuple[int, int, bool]] = []
    while not text.startswith("]", place) or elements:
        value, end = _decode(text, place)
        elements.append((place, end, _is_gone(value, format_, is_gone, place)))
        place = _skip_space(text, end)
        if text.startswith("]", place):
            break
        if not text.startswith(",", place):
            raise RecordError("the array is not valid JSON", place)
        place = _skip_space(text, place + 1)
    _check_end(text, place + 1)
    return Found(len(elements), sum(gone for *_, gone in elements), tuple(_cut_elements(elements)))


def _cut_elements(elements: Sequence[tuple[int, int, bool]]) -> list[tuple[int, int]]:
    """An element goes with the comma that follows it; those after the last that stays, with the comma before them."""
    last = max((number for number, (*_, gone) in enumerate(elements) if not gone), default=None)
    if last is None:
        return [(elements[0][0], elements[-1][1])] if elements else []
    cuts = [
        (start, elements[number + 1][0]) for number, (start, _, gone) in enumerate(elements) if gone and number < last
    ]
    return cuts + ([(elements[last][1], elements[-1][1])] if last < len(elements) - 1 else [])


def _is_gone(value: Any, format_: TextFormat, is_gone: IsGone, place: int) -> bool:
    if value is None:
        return False
    if not isinstance(value, dict):
        raise RecordError("the record is not a JSON object", place)
    try:
        return any(is_gone(row) for row in rows_of(value, format_.envelope, format_.key_column))
    except RecordError as error:
        raise RecordError(error.problem, place) from None


def _decode(text: str, place: int) -> tuple[Any, int]:
    try:
        return DECODER.raw_decode(text, place)
    except RecordError as error:
        raise RecordError(error.problem, place) from None
    except (ValueError, RecursionError):
        raise RecordError("the record is not valid JSON", place) from None


def _check_end(text: str, place: int) -> None:
    place = _skip_space(text, place)
    if place != len(text):
        raise RecordError("something follows the record", place)


def _skip_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place
