"""Reads SQL with sqlglot: what a query reads, and whether a condition is one.

Importing sqlglot costs about a third of a second, so only `sql_files` imports this module, and only on a cache miss.
sqlglot parses the query; its text is never rewritten.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.definitions.deep_stack import with_deep_stack
from penstock.definitions.sql_columns import find_columns, hides_names
from penstock.definitions.sql_counts import check_row_wise
from penstock.definitions.sql_dialect import to_plain, to_readable
from penstock.definitions.sql_facts import ColumnNeed, QueryFacts
from penstock.definitions.sql_foreign import check_foreign
from penstock.definitions.sql_grammar import check_grammar
from penstock.definitions.sql_needs import find_needs
from penstock.definitions.sql_reads import WithReads, find_inputs, find_remarks, find_with_reads, to_fingerprint
from penstock.definitions.sql_results import check_names, check_widths
from penstock.definitions.sql_scopes import Scopes
from penstock.definitions.sql_text import SqlSyntaxError, SqlText, UnreadSqlError, find_unclosed, to_offset
from penstock.errors import DefinitionError, Location, PenstockError

_QUERY_STARTS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", "MAP", "REDUCE"})
_QUOTES = frozenset("'\"`")
_Read = TypeVar("_Read")
_SPARK = Dialect.get_or_raise("spark")


def parse_query(sql: SqlText, *, is_whole: bool = True) -> QueryFacts:
    """Read what one query reads; raises when it is not a query. A text that is not whole has something in its holes."""
    tokens = to_tokens(sql)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return find_facts(sql, tokens, is_whole=is_whole)


def parse_with_reads(sql: SqlText) -> tuple[exp.Expr, WithReads]:
    """The parsed query, and which of its tables are names of WITH queries."""
    tokens = to_tokens(sql)

    def read() -> tuple[exp.Expr, WithReads]:
        query = _parse(sql, tokens)
        return query, find_with_reads(query, sql, tokens)

    return _located(sql, tokens, read)


def parse_condition(text: str) -> None:
    """Check that a text is one condition or value, as `expr` takes it; raises with the place in the text."""
    head = "SELECT "
    sql = SqlText("condition", text, head + text, ((0, len(head), 0),))
    tokens = to_tokens(sql)
    if len(tokens) == 1:
        raise SqlSyntaxError("the condition is empty", location=sql.location(0))
    query = _located(sql, tokens, lambda: _parse(sql, tokens))
    if any(each is not query for each in query.find_all(exp.Query)):
        raise SqlSyntaxError(
            "a condition cannot have a subquery",
            hint="join in the query, so that its inputs are known",
            location=sql.location(tokens[1].start),
        )
    others = [name for name, value in query.args.items() if name != "expressions" and value]
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or others:
        raise SqlSyntaxError("this is not one condition", location=sql.location(tokens[1].start))
    check_row_wise(query, sql, tokens[1].start)


def find_condition_needs(condition: str, query: str) -> tuple[tuple[ColumnNeed, int], ...]:
    """What the inputs of a query must have so that a condition on its result can be tested, with offsets in the condition."""
    head = "SELECT "
    text = f"{head}{condition}\nFROM (\n{query}\n)"
    try:
        needs = parse_query(SqlText("condition", text, text)).needs
    except DefinitionError:
        # Some queries cannot be in brackets, such as those that start with FROM.
        return ()
    offsets = [to_offset(text, Location("", need.line, need.column)) - len(head) for need in needs]
    return tuple((need, at) for need, at in zip(needs, offsets, strict=True) if at < len(condition))


def to_tokens(sql: SqlText) -> list[Token]:
    """The words of a text, with their places; raises when a quote or comment is not closed."""
    try:
        return list(_SPARK.tokenize(sql.text))
    except TokenError as error:
        hint = next(
            (f"the variable {name} has a quote: {value}" for name, value in sql.filled() if _QUOTES & {*value}), None
        )
        place = sql.location(find_unclosed(sql.text))
        raise SqlSyntaxError("this SQL has a quote or comment that is not closed", hint=hint, location=place) from error


def find_facts(sql: SqlText, tokens: list[Token], *, is_stored: bool = False, is_whole: bool = True) -> QueryFacts:
    """What the query of these tokens reads; its result may become a table."""

    def read() -> QueryFacts:
        query = _parse(sql, tokens, is_whole=is_whole)
        # Steps after |> are read as clauses that they are not, and IDENTIFIER(...) as a name.
        is_plain = not hides_names(tokens)
        if is_whole and is_plain:
            check_widths(query, sql)
        if is_stored and is_plain:
            check_names(query, sql)
        with_reads = find_with_reads(query, sql, tokens)
        inputs, reads = find_inputs(query, sql, tokens, with_reads)
        remarks = sorted([*find_remarks(tokens, sql), *reads], key=lambda remark: (remark.line, remark.column))
        scopes = Scopes(query)
        columns = find_columns(query, inputs, tokens, sql, with_reads, scopes)
        needs, result = find_needs(query, tokens, sql, with_reads, scopes)
        return QueryFacts(to_fingerprint(query, tokens), inputs, tuple(remarks), columns, needs, result)

    return _located(sql, tokens, read)


def _located(sql: SqlText, tokens: list[Token], read: Callable[[], _Read]) -> _Read:
    """Any failure of the parser, or of a walk over what it made of this text, is an error about the text."""
    start = sql.location(tokens[0].start if tokens else 0)
    try:
        return with_deep_stack(read)
    except PenstockError:
        raise
    except RecursionError as error:
        raise UnreadSqlError(
            "this query is too long or nested too deeply to be read",
            hint="move parts of it into temporary views",
            location=start,
        ) from error
    except Exception as error:
        raise UnreadSqlError(
            f"this SQL cannot be read ({type(error).__name__} in the parser)",
            hint="a function in it may have too few arguments",
            location=start,
        ) from error


def _parse(sql: SqlText, tokens: list[Token], *, is_whole: bool = True) -> exp.Expr:
    if not tokens:
        raise DefinitionError("the query is empty", location=sql.location(0))
    if tokens[0].text.upper() not in _QUERY_STARTS:
        raise _not_a_query(sql, tokens[0])
    check_grammar(sql, tokens)
    check_foreign(sql, tokens, is_whole=is_whole)
    parsed = _parse_tokens(sql, tokens)
    query = parsed[0] if len(parsed) == 1 else None
    if not isinstance(query, exp.Query | exp.Values):
        raise _not_a_query(sql, tokens[0])
    return query


def _parse_tokens(sql: SqlText, tokens: list[Token]) -> list[exp.Expr | None]:
    """As sqlglot reads the query; if it cannot, as it reads the query with forms that only Spark knows replaced."""
    known = to_plain(tokens)
    try:
        return _SPARK.parser(error_level=ErrorLevel.IMMEDIATE).parse(known, sql.text)
    except RecursionError:
        raise
    except Exception as error:  # the parser stumbles over some forms instead of refusing them
        with suppress(ParseError, ValueError, TypeError, LookupError, AttributeError, AssertionError):
            return _SPARK.parser(error_level=ErrorLevel.IMMEDIATE).parse(to_readable(known), sql.text)
        raise (_syntax_error(sql, error) if isinstance(error, ParseError) else error) from error


def _not_a_query(sql: SqlText, token: Token) -> DefinitionError:
    return DefinitionError(
        f"this is not a query: it starts with {token.text!r}",
        hint="a query starts with SELECT, WITH, FROM, TABLE or VALUES",
        location=sql.location(token.start),
    )


def _syntax_error(sql: SqlText, error: ParseError) -> UnreadSqlError:
    facts = error.errors[0] if error.errors else {}
    word = str(facts.get("highlight") or "")
    # sqlglot gives the column where the word ends.
    line, column = int(facts.get("line") or 1), int(facts.get("col") or 1)
    start = sum(len(text) + 1 for text in sql.text.split("\n")[: line - 1])
    return UnreadSqlError(
        f"this SQL has a syntax error at {word!r}" if word else "this SQL has a syntax error",
        hint=_advice(str(facts.get("description") or ""), word),
        location=sql.location(start + max(0, column - max(1, len(word)))),
    )


def _advice(description: str, word: str) -> str | None:
    """The message of the parser, if it is meant for users."""
    if description.startswith("Required keyword") and word == ")":
        return "the function whose brackets end here may need more arguments"
    text = description.partition(" but got <")[0]
    return None if "<class" in text or text.startswith("Invalid expression") or not text else text.lower()
