"""The records of a JSON-lines file in blocks of text values: one object per line, and every number as it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.model.text_files import OnBadRow, TextFiles
from penstock.storage.text.blocks import LINE_TEXT, LONGEST_RECORD, BadRow, Block, TextColumn, refuse

_HINT = "write one JSON object per line"
_DEEPEST = 500
"""So many levels of values within values are read; Python itself cannot walk through many more."""


class _Number(str):
    """A number as it is written, where Python would change it: with a fraction or an exponent, -0, or too long."""

    __slots__ = ()


class _BadRecordError(ValueError):
    """A record that is not certain; its text says why."""


def _to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _BadRecordError(f"the field {twice!r} is there twice")
    return found


def _refuse_constant(_: str) -> Any:
    raise _BadRecordError("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_to_object, parse_float=_Number, parse_constant=_refuse_constant)
_EXACT = json.JSONDecoder(
    object_pairs_hook=_to_object, parse_float=_Number, parse_int=_Number, parse_constant=_refuse_constant
)
"""Slower: it also keeps whole numbers as they are written."""
_MINUS_ZERO = re.compile(r"-0\s*[,}\]]")


def _decode(text: str) -> tuple[Any, int]:
    if "-0" in text and _MINUS_ZERO.search(text):
        return _EXACT.raw_decode(text)
    try:
        return _DECODER.raw_decode(text)
    except _BadRecordError:
        raise
    except ValueError:  # perhaps only a number with more digits than Python takes
        return _EXACT.raw_decode(text)


@dataclass(slots=True)
class JsonFile:
    """One JSON-lines file while it is read."""

    path: str
    settings: TextFiles
    _line: int = 1

    def read(self, pieces: Iterator[bytes]) -> Iterator[Block]:
        """The records in blocks; an error names the first bad record, unless bad records are to be put aside."""
        rest = b""
        for piece in pieces:
            text = rest + piece
            cut = text.rfind(b"\n") + 1
            rest = text[cut:]
            if cut:
                yield self._read_block(text[:cut])
            if len(rest) > LONGEST_RECORD:
                raise refuse(self.path, f"a record has more than {LONGEST_RECORD:,} bytes", _HINT, self._line)
        if rest:
            yield self._read_block(rest)

    def _read_block(self, text: bytes) -> Block:
        rows: list[dict[str, Any]] = []
        lines: list[int] = []
        bad: list[BadRow] = []
        shapes: dict[tuple[str, ...], None] = {}
        for line in text.removesuffix(b"\n").split(b"\n"):
            try:
                row = _read_record(line, shapes)
            except _BadRecordError as error:
                bad.append(self._put_aside(line, str(error)))
            else:
                if row is not None:
                    rows.append(row)
                    lines.append(self._line)
            self._line += 1
        names = dict.fromkeys(name for shape in shapes for name in shape)
        return Block(len(rows), _to_columns(rows, names), np.array(lines, np.int64), tuple(bad))

    def _put_aside(self, line: bytes, problem: str) -> BadRow:
        if self.settings.on_bad_row is OnBadRow.FAIL:
            hint = f"{_HINT}, or set files: on_bad_row: quarantine"
            raise refuse(self.path, problem, hint, self._line)
        text = line.decode("utf-8", "backslashreplace").rstrip("\r").replace("\0", "\ufffd")
        return BadRow(self._line, problem, {LINE_TEXT: text}, _HINT)


def _read_record(line: bytes, shapes: dict[tuple[str, ...], None]) -> dict[str, Any] | None:
    """The object of a line; None for a blank one. `shapes` has the names of all objects so far."""
    try:
        text = line.decode().strip(" \t\r")
        if not text:
            return None
        value, end = _decode(text)
    except _BadRecordError:
        raise
    except UnicodeDecodeError:
        raise _BadRecordError("it has bytes that are not text in this encoding") from None
    except RecursionError:
        raise _BadRecordError("its values are nested too deeply") from None
    except ValueError:
        raise _BadRecordError("it is not valid JSON") from None
    if not isinstance(value, dict):
        raise _BadRecordError("it is not a JSON object")
    if end != len(text):
        raise _BadRecordError("something follows the JSON object")
    if text.count("[") + text.count("{") > _DEEPEST and _is_deep(value):
        raise _BadRecordError("its values are nested too deeply")
    if "\\u" in text:
        _check_surrogates(value)
    shape = tuple(value)
    if shape not in shapes:
        if len({name.lower() for name in shape}) != len(shape):
            raise _BadRecordError("it has fields whose names differ only by case")
        shapes[shape] = None
    return value


def _is_deep(value: Any) -> bool:
    """Whether there are more than the levels that are read."""
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [part for each in level if isinstance(each, dict | list) for part in _parts_of(each)]
    return bool(level)


def _parts_of(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _check_surrogates(value: Any) -> None:
    """Half of a character, which no text can have."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _BadRecordError("it has half of a surrogate pair, which is no character") from None


def _to_columns(rows: Sequence[Mapping[str, Any]], given: Iterable[str]) -> dict[str, TextColumn]:
    """The values by column; names that differ only by case are one column, under the name that comes first."""
    spellings: dict[str, dict[str, None]] = {}
    for name in given:
        spellings.setdefault(name.lower(), {})[name] = None
    found = {}
    for names in spellings.values():
        first, *others = names
        values = [row.get(first) for row in rows]
        for other in others:
            values = [row.get(other, value) for value, row in zip(values, rows, strict=True)]
        found[first] = _to_column(values)
    return found


def _to_column(values: Sequence[Any]) -> TextColumn:
    """The values as text: strings as they are, numbers as they are written, nested ones as JSON."""
    import pyarrow as pa

    types = set(map(type, values)) - {type(None)}
    if types == {str}:
        return TextColumn(pa.array(values, pa.string()), is_string=True)
    if types == {int}:
        try:
            return TextColumn(pa.array(values, pa.int64()).cast(pa.string()))
        except (OverflowError, pa.ArrowInvalid):  # numbers of more than 64 bits
            pass
    texts = [None if value is None else _to_text(value) for value in values]
    is_plain = types <= {int, _Number} or types <= {bool}
    return TextColumn(pa.array(texts, pa.string()), is_string=not is_plain)


def _to_text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case dict() | list():
            return _to_json(value)
    return str(value)


def _to_json(value: Any) -> str:
    """A nested value as JSON, with numbers as they were written. Loops, because a generator would halve the possible depth."""
    parts = []
    match value:
        case dict():
            for name, part in value.items():
                parts.append(f"{_quote(name)}:{_to_json(part)}")
            return "{" + ",".join(parts) + "}"
        case list():
            for part in value:
                parts.append(_to_json(part))  # noqa: PERF401
            return "[" + ",".join(parts) + "]"
        case None:
            return "null"
        case bool() | int() | _Number():
            return _to_text(value)
    return _quote(value)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
