"""Rare forms of Spark, each as tokens with the same reads that sqlglot can parse: IDENTIFIER('f')(a), samples, NEAREST, ...

Needs sqlglot's tokens; see `sql_dialect`, whose rules these are: each says what stands for the next tokens, and for how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sqlglot.tokenizer_core import Token
from sqlglot.tokenizer_core import TokenType as T

from penstock.definitions.sql_tokens import find_end, is_glued, kind_at, like, texts_at

_Replaced: TypeAlias = tuple[list[Token], int]
_SINGULAR = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND")
UNITS = frozenset(f"{unit}{end}" for unit in _SINGULAR for end in ("", "S"))
_AMOUNTS = frozenset({T.NUMBER, T.STRING})
_SIGNS = frozenset({T.DASH, T.PLUS})
_BEFORE_WITH_NAME = frozenset({T.WITH, T.COMMA, T.RECURSIVE})
_BEFORE_SCRIPT = frozenset({None, T.L_PAREN, T.R_PAREN, T.VAR, T.IDENTIFIER})
_AFTER_SCRIPT = frozenset({T.FROM, T.WHERE, T.LATERAL, T.UNION, T.EXCEPT, T.INTERSECT, T.GROUP_BY, T.ORDER_BY, T.LIMIT})
_SNAPSHOTS = {"SYSTEM_VERSION": "VERSION", "VERSION": "VERSION", "SYSTEM_TIME": "TIMESTAMP", "TIMESTAMP": "TIMESTAMP"}


def to_call(tokens: Sequence[Token], place: int, before: T | None) -> _Replaced | None:
    """The name for IDENTIFIER('f')(a), for `AS IDENTIFIER('y')` and for `WITH IDENTIFIER('x') AS (...)`."""
    if texts_at(tokens, place, 2) != ["IDENTIFIER", "("] or tokens[place].token_type is not T.VAR:
        return None
    end = find_end(tokens, place + 2)
    first, second = kind_at(tokens, end + 1), kind_at(tokens, end + 2)
    is_with_name = before in _BEFORE_WITH_NAME and first is T.ALIAS and second is T.L_PAREN
    if before is not T.ALIAS and first is not T.L_PAREN and not is_with_name:
        return None
    name = tokens[place + 2] if end == place + 3 and kind_at(tokens, place + 2) is T.STRING else tokens[place]
    return [like(tokens[place], T.VAR, name.text if str(name.text).isidentifier() else None)], end + 1 - place


def to_interval(tokens: Sequence[Token], place: int, _: T | None) -> _Replaced | None:
    """Nothing for the sign in `INTERVAL 1 DAY -1 HOUR`, which sqlglot reads as the end of the interval."""
    is_sign = kind_at(tokens, place) in _SIGNS and _is_part(tokens, place + 1)
    return ([], 1) if is_sign and _ends_interval(tokens, place) else None


def _is_part(tokens: Sequence[Token], place: int) -> bool:
    return kind_at(tokens, place) in _AMOUNTS and "".join(texts_at(tokens, place + 1, 1)) in UNITS


def _ends_interval(tokens: Sequence[Token], place: int) -> bool:
    """Whether `INTERVAL 1 DAY`, with any number of parts, ends here."""
    while place >= 2 and _is_part(tokens, place - 2):
        place -= 3 if kind_at(tokens, place - 3) in _SIGNS else 2
        if kind_at(tokens, place - 1) is T.INTERVAL:
            return True
    return False


def to_form(tokens: Sequence[Token], place: int, before: T | None) -> _Replaced | None:
    """What only a query that sqlglot cannot read may have."""
    for find in (_to_sample, _to_nearest, _to_snapshot, _to_script, _to_type):
        found = find(tokens, place, before)
        if found is not None:
            return found
    return None


def _to_sample(tokens: Sequence[Token], place: int, before: T | None) -> _Replaced | None:
    """Nothing for TABLESAMPLE (3 ROWS) after a subquery: a sample has its columns."""
    if (
        kind_at(tokens, place) is not T.TABLE_SAMPLE
        or before is not T.R_PAREN
        or kind_at(tokens, place + 1) is not T.L_PAREN
    ):
        return None
    end = find_end(tokens, place + 2) + 1
    if texts_at(tokens, end, 2) == ["REPEATABLE", "("]:
        end = find_end(tokens, end + 2) + 1
    return [], end - place


def _to_nearest(tokens: Sequence[Token], place: int, _: T | None) -> _Replaced | None:
    """ON for `APPROX NEAREST 3 BY DISTANCE`."""
    texts = texts_at(tokens, place, 5)
    if texts[:1] not in (["APPROX"], ["EXACT"]) or texts[1:2] != ["NEAREST"]:
        return None
    used = 5 if kind_at(tokens, place + 2) is T.NUMBER else 4
    is_complete = texts[used - 2 : used] in (["BY", "DISTANCE"], ["BY", "SIMILARITY"])
    return ([like(tokens[place], T.ON, "ON")], used) if is_complete else None


def _to_snapshot(tokens: Sequence[Token], place: int, _: T | None) -> _Replaced | None:
    """`VERSION AS OF 1` for SYSTEM_VERSION, and for CHANGES FROM VERSION 1 TO VERSION 2."""
    token = tokens[place]
    start = place + 1 if token.token_type is T.FOR else place
    texts = texts_at(tokens, start, 3)
    if texts[1:] == ["AS", "OF"] and texts[0] in _SNAPSHOTS:
        return [like(token, T.VAR, _SNAPSHOTS[texts[0]])], start + 1 - place
    is_range = texts[:2] == ["CHANGES", "FROM"] and texts[2:] in (["VERSION"], ["TIMESTAMP"])
    if not is_range or kind_at(tokens, place + 3) not in _AMOUNTS:
        return None
    used = 6 if texts_at(tokens, place + 4, 2) in (["TO", "VERSION"], ["TO", "TIMESTAMP"]) else 3
    words = [like(token, T.VAR, "VERSION"), like(token, T.ALIAS, "AS"), like(token, T.VAR, "OF")]
    return [*words, tokens[place + 3]], used + 1


def _to_script(tokens: Sequence[Token], place: int, before: T | None) -> _Replaced | None:
    """`SELECT TRANSFORM(a) USING` for `MAP a USING`; the columns after AS are in brackets."""
    token = tokens[place]
    if str(token.text).upper() in {"MAP", "REDUCE"} and before in _BEFORE_SCRIPT:
        end = find_end(tokens, place + 1, {T.USING})
        if end == place + 1 or [kind_at(tokens, end), kind_at(tokens, end + 1)] != [T.USING, T.STRING]:
            return None
        head = [like(token, T.SELECT, "SELECT"), like(token, T.VAR, "TRANSFORM"), like(token, T.L_PAREN, "(")]
        return [*head, *tokens[place + 1 : end], like(token, T.R_PAREN, ")")], end - place
    is_named = [kind_at(tokens, place - each) for each in (2, 1, 0)] == [T.USING, T.STRING, T.ALIAS]
    if not is_named or kind_at(tokens, place + 1) is T.L_PAREN:
        return None
    end = find_end(tokens, place + 1, _AFTER_SCRIPT)
    return [token, like(token, T.L_PAREN, "("), *tokens[place + 1 : end], like(token, T.R_PAREN, ")")], end - place


def _to_type(tokens: Sequence[Token], place: int, _: T | None) -> _Replaced | None:
    """Any type for STRUCT<>."""
    is_empty = kind_at(tokens, place) is T.STRUCT and texts_at(tokens, place + 1, 1) == ["<>"]
    return ([like(tokens[place], T.INT, "INT")], 2) if is_empty and is_glued(tokens, place, 2) else None
