"""Slips that sqlglot reads over and Spark does not: a missing name, unit, bracket or value, or one too many. Needs sqlglot.

Each rule sees the words (see `sql_foreign`, which tells the first mistake) or the parsed query (see `sql_counts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType as T

from penstock.definitions.sql_forms import UNITS
from penstock.definitions.sql_grammar import BEFORE_VALUE, OPERATORS, Word
from penstock.definitions.sql_places import Places
from penstock.definitions.sql_text import SqlText

_Found: TypeAlias = Iterator[tuple[Word, str, str | None]]
_NAMES = frozenset({T.VAR, T.IDENTIFIER})
_BEFORE_NOT = OPERATORS - {T.ARROW}
_OPENING = frozenset({T.COMMA, T.L_PAREN, T.L_BRACKET, *OPERATORS})
"""What is never a name, so that no dot can follow but that of a number."""
_LISTED = frozenset({T.GROUP_BY, T.PARTITION_BY, T.COMMA, *OPERATORS})
"""Something must be between these and the next step."""
_AFTER_TABLE = frozenset({T.VAR, T.IDENTIFIER, T.ALIAS, T.WHERE, T.JOIN, T.GROUP_BY, T.SELECT, T.HAVING})
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
_SUBQUERIES = (exp.SubqueryPredicate, exp.In)


def find_misread(sql: SqlText, words: Sequence[Word], places: Places) -> _Found:
    """Each slip that the words show, what it is, and what helps."""
    for rule in _RULES:
        yield from rule(sql, words, places)


def find_misparsed(query: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    """Each slip that the parsed query shows."""
    for brackets in query.find_all(exp.Paren):
        if isinstance(brackets.this, exp.Alias):
            yield (
                brackets,
                f"a value in brackets cannot be called {brackets.this.alias}: a comma or operator may be missing",
            )
    for select in query.find_all(exp.Select):
        call = select.parent
        is_table = isinstance(call, exp.Anonymous) and call.name.lower() == "table"
        if isinstance(call, exp.Func) and not isinstance(call, _SUBQUERIES) and not is_table:
            yield select, "a subquery needs brackets of its own, and a comma or FROM may be missing before it"
    for alias in query.find_all(exp.TableAlias):
        for column in alias.columns:
            if isinstance(column, exp.Identifier) and not column.quoted and column.name.isdigit():
                yield alias, f"{column.name} cannot be the name of a column"
    for test in query.find_all(exp.In):
        if isinstance(test.args.get("field"), exp.Column):
            yield test.args["field"], "IN needs a list in brackets: IN (1, 2) or IN (SELECT ...)"


def _find_dots(sql: SqlText, words: Sequence[Word], _: Places) -> _Found:
    for place, word in enumerate(words):
        if word.kind is not T.DOT:
            continue
        before, after = words[place - 1 : place], words[place + 1 : place + 2]
        is_clause = bool(before) and before[0].kind in {T.FROM, T.JOIN} and before[0].before not in BEFORE_VALUE
        is_apart = bool(before) and word.token.start > before[0].token.end + 1
        is_name = bool(after) and str(after[0].token.text).isidentifier() and after[0].kind is not T.STRING
        is_text = bool(after) and after[0].kind is T.STRING and sql.text.startswith("'", after[0].token.start)
        is_first = (is_clause and is_apart) or (word.before in _OPENING and is_name)
        if word.before is T.DOT or word.after is T.COLON or is_first or is_text:
            yield word, "a name is missing at this dot", None


def _find_views(_: SqlText, words: Sequence[Word], places: Places) -> _Found:
    """Generators without any name; after them, Spark takes the next word for their name."""
    for place, word in enumerate(words):
        if word.kind is not T.R_PAREN or not places.is_view(place):
            continue
        first, second = words[place + 1 : place + 2], words[place + 2 : place + 3]
        is_last = not first or first[0].token.token_type is T.R_PAREN
        is_limit = bool(second) and first[0].token.token_type is T.LIMIT and second[0].kind is T.NUMBER
        is_clause = bool(second) and first[0].token.token_type in {T.GROUP_BY, T.ORDER_BY} and second[0].kind in _NAMES
        if is_last or is_limit or is_clause:
            yield word, "LATERAL VIEW needs a name", "write LATERAL VIEW explode(items) AS item"


def _find_intervals(sql: SqlText, words: Sequence[Word], places: Places) -> _Found:
    for place, word in enumerate(words):
        amount = words[place + 1 : place + 2]
        if word.token.token_type is not T.INTERVAL or word.before is T.DOT or not amount:
            continue
        is_text = amount[0].kind is T.STRING and sql.text.startswith("'", amount[0].token.start)
        is_amount = amount[0].kind is T.NUMBER or (is_text and _WHOLE.fullmatch(str(amount[0].token.text)))
        unit = places.texts(place + 2, 1)[0]
        if is_amount and unit not in UNITS:
            yield (
                word,
                f"an interval has no unit {unit}" if unit.isalpha() else "an interval needs a unit",
                "INTERVAL 5 DAYS",
            )


def _find_tables(_: SqlText, words: Sequence[Word], __: Places) -> _Found:
    """`TABLE t` is a whole query: neither an alias nor a clause that SELECT has can follow."""
    if not words or words[0].token.token_type is not T.TABLE:
        return
    place = 1
    while place + 2 < len(words) and words[place].kind in _NAMES and words[place + 1].kind is T.DOT:
        place += 2
    after = words[place + 1 : place + 2]
    if words[place : place + 1] and words[place].kind in _NAMES and after and after[0].token.token_type in _AFTER_TABLE:
        yield after[0], f"{after[0].token.text} cannot follow TABLE and a name", "write SELECT * FROM instead of TABLE"


def _find_limits(_: SqlText, words: Sequence[Word], places: Places) -> _Found:
    for place, word in enumerate(words):
        number = words[place + 2 : place + 3]
        is_last = bool(number) and number[0].kind is T.NUMBER and number[0].after in {None, T.R_PAREN}
        if word.kind is T.LIMIT and places.texts(place + 1, 1) == ["-"] and is_last:
            yield word, "LIMIT cannot be negative", None


def _find_negations(sql: SqlText, words: Sequence[Word], _: Places) -> _Found:
    for place, word in enumerate(words):
        if word.token.token_type is not T.NOT or word.before not in _BEFORE_NOT or place + 1 >= len(words):
            continue
        after = words[place + 1]
        is_value = after.kind is T.NUMBER or (after.kind is T.STRING and sql.text.startswith("'", after.token.start))
        if is_value or (word.text == "!" and word.before is not T.GT):  # > may end a type
            yield word, f"{word.text} cannot follow an operator", "put it in brackets: a = (NOT b)"


def _find_parts(_: SqlText, words: Sequence[Word], places: Places) -> _Found:
    for place, word in enumerate(words):
        following = places.texts(place + 1, 1)[0]
        is_part = word.text == "FROM" and places.function_around(place) in {"SUBSTRING", "SUBSTR"}
        is_number = bool(words[place + 2 : place + 3]) and words[place + 2].kind is T.NUMBER
        if is_part and following == "FOR" and is_number:
            yield word, "the place after FROM is missing", "write substring(a FROM 2 FOR 1)"
        if word.kind is T.L_PAREN and word.before is T.SELECT and word.after is T.R_PAREN:
            yield word, "nothing is in these brackets", None


def _find_steps(_: SqlText, words: Sequence[Word], __: Places) -> _Found:
    for word in words:
        if word.after is T.PIPE_GT and word.kind in _LISTED:
            yield word, f"nothing follows {word.text}", None


_RULES: tuple[Callable[[SqlText, Sequence[Word], Places], _Found], ...] = (
    _find_dots,
    _find_views,
    _find_intervals,
    _find_tables,
    _find_limits,
    _find_negations,
    _find_parts,
    _find_steps,
)
