"""What a parsed query reads, what cannot be traced in it, and its fingerprint. Needs sqlglot; see `sql_parse`."""

from __future__ import annotations

import hashlib
import json

from sqlglot import exp
from sqlglot.errors import ErrorLevel, OptimizeError
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.tokenizer_core import Token, TokenType

from penstock.definitions.sql_facts import (
    FILE_FORMATS,
    FILE_FUNCTIONS,
    NOT_DETERMINISTIC,
    WITHOUT_PARENTHESES,
    SqlRemark,
)
from penstock.definitions.sql_text import SqlText
from penstock.errors import DefinitionError
from penstock.model.names import is_name_part

_LITERALS = frozenset(kind for kind in TokenType if kind.name.endswith("STRING"))
MOMENTS = frozenset({"now", "today", "tomorrow", "yesterday"})
_DATE_TYPES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})


WithReads = frozenset[int]
"""Tables of a parsed query that are names of WITH queries, by `id`."""


def to_fingerprint(query: exp.Expr, tokens: list[Token]) -> str:
    """A hash that comments, white space and the case of keywords do not change.

    It covers the words as well as the parsed query: the words because a parser may drop what it does not support,
    the query because it knows which words are names, whose case shows in the result.
    """
    words = [token.text if token.token_type in _LITERALS else token.text.upper() for token in tokens]
    kinds = [token.token_type.name for token in tokens if token.token_type in _LITERALS]
    text = query.sql(dialect="spark", comments=False, unsupported_level=ErrorLevel.IGNORE)
    return hashlib.blake2b(json.dumps([words, kinds, text]).encode(), digest_size=16).hexdigest()


def find_inputs(
    query: exp.Expr, sql: SqlText, tokens: list[Token], with_reads: WithReads
) -> tuple[tuple[str, ...], list[SqlRemark]]:
    """Every table that the query reads, once, in order of appearance; and the reads that cannot be traced."""
    inputs: dict[str, None] = {}
    remarks: list[SqlRemark] = []
    # A hint such as BROADCAST(p) names a table or alias that the query reads anyway.
    tables = [table for table in query.find_all(exp.Table) if table.find_ancestor(exp.Hint) is None]
    for table in sorted(tables, key=lambda node: _offset(node, tokens)):
        offset = _offset(table, tokens)
        if isinstance(table.this, exp.Func):
            name = _read_function(table.this, sql, offset, remarks)
            inputs.update(dict.fromkeys(_table_arguments(table.this)))
        elif _is_path(table):
            remarks.append(_remark("untraced_read", f"reads the files of {_shown(table)}", sql, offset))
            name = None
        else:
            name = None if id(table) in with_reads else ".".join(part.name for part in table.parts)
        if name is not None:
            inputs[name] = None
    return tuple(inputs), remarks


def find_remarks(tokens: list[Token], sql: SqlText) -> list[SqlRemark]:
    """Functions whose result differs on every run, with their places."""
    found = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        after = [item.text for item in tokens[index + 1 : index + 3]]
        if _is_changing(token, before, after) or _is_moment(token, before) or _is_sample(token, tokens[index:]):
            shown = f"{token.text}()" if after[:1] == ["("] else token.text
            text = f"{shown} returns a different result on every run"
            found.append(_remark("not_deterministic", text, sql, token.start))
    return found


def is_text(token: Token) -> bool:
    """Tell whether the token is a quoted text."""
    return token.token_type in _LITERALS


def _is_changing(token: Token, before: Token | None, after: list[str]) -> bool:
    name = token.text.lower()
    is_quoted = is_text(token) or token.token_type is TokenType.IDENTIFIER
    if is_quoted or (before is not None and before.token_type in {TokenType.DOT, TokenType.ALIAS}):
        return False
    if after[:1] == ["("]:
        return name in NOT_DETERMINISTIC or (name == "unix_timestamp" and after == ["(", ")"])
    return name in WITHOUT_PARENTHESES and after[:1] != ["."]


def _is_moment(token: Token, before: Token | None) -> bool:
    """DATE 'today' and similar literals."""
    is_text = token.token_type is TokenType.STRING and token.text.strip().lower() in MOMENTS
    return is_text and before is not None and before.text.upper() in _DATE_TYPES


def _is_sample(token: Token, rest: list[Token]) -> bool:
    """TABLESAMPLE without REPEATABLE picks different rows each time."""
    if token.token_type is not TokenType.TABLE_SAMPLE:
        return False
    words = [ahead.text.upper() for ahead in rest]
    end = words.index(")") if ")" in words else len(words)
    return words[end + 1 : end + 2] != ["REPEATABLE"]


def _read_function(function: exp.Func, sql: SqlText, offset: int, remarks: list[SqlRemark]) -> str | None:
    name = _function_name(function)
    arguments = function.expressions
    if name == "stream":
        raise DefinitionError(
            "STREAM is not supported: a definition reads whole tables",
            hint="remove STREAM",
            location=sql.location(offset),
        )
    if name == "identifier":
        if len(arguments) == 1 and isinstance(arguments[0], exp.Literal) and arguments[0].is_string:
            return str(arguments[0].this)
        remarks.append(_remark("untraced_read", "reads a table whose name is computed by IDENTIFIER()", sql, offset))
    elif name in FILE_FUNCTIONS:
        remarks.append(_remark("untraced_read", f"reads from outside the project with {name}()", sql, offset))
    return None


def _table_arguments(function: exp.Func) -> list[str]:
    """The tables in my_function(TABLE(t)); sqlglot sees a function of a column there."""
    calls = [call for call in function.find_all(exp.Anonymous) if call.name.lower() == "table"]
    columns = [argument for call in calls for argument in call.expressions if isinstance(argument, exp.Column)]
    return [".".join(part.name for part in column.parts) for column in columns]


def _is_path(table: exp.Table) -> bool:
    return table.db.lower() in FILE_FORMATS and not is_name_part(table.name)


def find_with_reads(query: exp.Expr, sql: SqlText, tokens: list[Token]) -> WithReads:
    """The tables of the query that mean a WITH query visible from there, by identity."""
    for part in query.find_all(exp.CTE):
        if not isinstance(part.this, exp.Query | exp.Values):
            start = part.args["alias"].this.meta.get("start", tokens[0].start)
            raise _unsupported(f"the WITH query {part.alias!r} is not a SELECT", sql, start)
    try:
        scopes = traverse_scope(query)
    except OptimizeError as error:
        raise _unsupported("a part of this query is not a SELECT", sql, tokens[0].start) from error
    return frozenset(
        id(table)
        for scope in scopes
        for table in [*scope.tables, scope.expression]
        if isinstance(table, exp.Table) and not table.db and table.name.lower() in map(str.lower, scope.cte_sources)
    )


def _unsupported(message: str, sql: SqlText, offset: int) -> DefinitionError:
    hint = "write SELECT * FROM name instead of TABLE name"
    return DefinitionError(message, hint=hint, location=sql.location(offset))


def _offset(table: exp.Table, tokens: list[Token]) -> int:
    """Where the table is named; sqlglot keeps places of names, not of functions."""
    if isinstance(table.this, exp.Func):
        name = _function_name(table.this)
        return next((token.start for token in tokens if token.text.lower() == name), tokens[0].start)
    place = table.find(exp.Identifier)
    found = place.meta.get("start") if place is not None else None
    return found if isinstance(found, int) else tokens[0].start


def _function_name(function: exp.Func) -> str:
    return (function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()


def _shown(table: exp.Table) -> str:
    return f"{table.db}.`{table.name}`"


def _remark(code: str, text: str, sql: SqlText, offset: int) -> SqlRemark:
    location = sql.location(offset)
    return SqlRemark(code, text, location.line or 1, location.column or 1)
