"""Filling in `:partition_start` and the like: Delta's parser does not pass parameters on to Spark, so they become literals."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.definitions.sql_parse import to_tokens
from penstock.definitions.sql_text import SqlText


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


def _to_literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP {_quote(value.isoformat(sep=' '))}"
    if isinstance(value, date):
        return f"DATE {_quote(value.isoformat())}"
    return _quote(str(value))


def _quote(text: str) -> str:
    return exp.Literal.string(text).sql(dialect="spark")
