"""Small questions about the tokens of a query. Needs sqlglot's tokens; see `sql_parse`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence, Set

from sqlglot.tokenizer_core import Token
from sqlglot.tokenizer_core import TokenType as T


def kind_at(tokens: Sequence[Token], place: int) -> T | None:
    """The kind of a token; None before the first and after the last one."""
    return tokens[place].token_type if 0 <= place < len(tokens) else None


def texts_at(tokens: Sequence[Token], place: int, count: int) -> list[str]:
    """Words from here on, in upper case; fewer at the end."""
    return [str(token.text).upper() for token in tokens[max(0, place) : max(0, place + count)]]


def is_glued(tokens: Sequence[Token], place: int, count: int) -> bool:
    """Whether nothing is between these tokens."""
    some = tokens[max(0, place) : place + count]
    return len(some) == count and all(one.end + 1 == two.start for one, two in itertools.pairwise(some))


def find_end(tokens: Sequence[Token], start: int, ends: Set[T] = frozenset()) -> int:
    """Where what starts here ends: at one of these words, a closing bracket, or the end."""
    depth = 0
    for place in range(start, len(tokens)):
        kind = tokens[place].token_type
        if depth == 0 and (kind is T.R_PAREN or kind in ends):
            return place
        depth += {T.L_PAREN: 1, T.R_PAREN: -1}.get(kind, 0)
    return len(tokens)


def like(token: Token, kind: T, text: str | None = None) -> Token:
    """A token in the place of another one."""
    return Token(kind, text if text is not None else token.text, token.line, token.col, token.start, token.end)
