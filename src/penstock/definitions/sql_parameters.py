"""Filling in `:partition_start` and the like: Delta's parser does not pass parameters on to Spark, so they become literals."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.definitions.sql_facts import SqlPartitions
from penstock.definitions.sql_parse import to_tokens
from penstock.definitions.sql_text import SqlText

_BEFORE_VALUE = frozenset(
    {TokenType.L_PAREN, TokenType.COMMA, TokenType.EQ, TokenType.NEQ, TokenType.LTE, TokenType.GTE, TokenType.PLUS}
)
_WORD = re.compile(r"[\w`'\"\])]")


def fill_parameters(query: str, values: Mapping[str, Any]) -> str:
    """The query with a literal for each parameter that has a value; quotes and comments are left alone."""
    tokens = to_tokens(SqlText("query", query, query))
    parts: list[str] = []
    done = 0
    for colon, name in itertools.pairwise(tokens):
        is_parameter = colon.token_type is TokenType.COLON and name.start == colon.end + 1
        if is_parameter and name.text in values:
            parts += [query[done : colon.start], _to_literal(values[name.text])]
            done = name.end + 1
    return "".join([*parts, query[done:]])


def find_unknown_parameter(tokens: Sequence[Token], known: Collection[str]) -> Token | None:
    """The first parameter of a query that never has a value.

    A colon that follows a word is something else, as in `STRUCT<name:STRING>`. Without known parameters, other names than
    those of partitions count only after a bracket, a comma or an operator.
    """
    for before, colon, name in zip((None, *tokens), tokens, (*tokens[1:], None), strict=True):
        if colon.token_type is TokenType.PLACEHOLDER:
            return colon
        if name is None:
            break
        follows = before is not None and before.end + 1 == colon.start and _WORD.match(before.text[-1:] or "'")
        is_parameter = colon.token_type is TokenType.COLON and name.start == colon.end + 1 and not follows
        is_value = before is not None and before.token_type in _BEFORE_VALUE
        if is_parameter and name.text not in known and (known or name.text.startswith("partition") or is_value):
            return name
    return None


def to_parameters(given: SqlPartitions | None) -> tuple[str, ...]:
    """The parameters that a definition with such partitions can use."""
    if given is None:
        return ()
    is_time = given.unit not in {"list", "column"}
    one = () if is_time and given.takes_many else ("partition",)
    return (*one, "partition_start", "partition_end") if is_time else one


def _to_literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP {_quote(value.isoformat(sep=' '))}"
    if isinstance(value, date):
        return f"DATE {_quote(value.isoformat())}"
    return _quote(str(value))


def _quote(text: str) -> str:
    return exp.Literal.string(text).sql(dialect="spark")
