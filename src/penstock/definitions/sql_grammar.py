"""Mistakes in SQL that sqlglot reads over and Spark does not: stray commas, brackets, clauses that are empty or out of order.

Needs sqlglot's tokens; see `sql_parse`. Only what no query of Spark can have is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token
from sqlglot.tokenizer_core import TokenType as T

from penstock.definitions.sql_text import SqlSyntaxError, SqlText

_BRACKETS = {T.L_PAREN: T.R_PAREN, T.L_BRACKET: T.R_BRACKET}
_CLOSING = frozenset(_BRACKETS.values())
_ORDER = {
    T.WHERE: 1,
    T.GROUP_BY: 2,
    T.HAVING: 3,
    T.ORDER_BY: 4,
    T.CLUSTER_BY: 4,
    T.DISTRIBUTE_BY: 4,
    T.SORT_BY: 5,
    T.LIMIT: 6,
    T.OFFSET: 7,
}
"""In which order a query has its clauses."""
_LATEST_BEFORE_SET = 3
"""A query that has a clause after this one must be in brackets before UNION or similar."""
_SETS = frozenset({T.UNION, T.INTERSECT, T.EXCEPT})
_CLAUSES = frozenset({*_ORDER, *_SETS, T.FROM, T.JOIN, T.ON, T.QUALIFY, T.SEMICOLON})
_NEEDS_MORE = frozenset({*_ORDER, T.PARTITION_BY, T.SELECT, T.FROM, T.ON, T.QUALIFY, T.IN, T.EXISTS, T.ALIAS, T.UNION})
"""After these words there must be something else than a closing bracket, another clause, or the end."""
_NEEDS_LIST = frozenset({T.IN, T.USING, T.VALUES})
"""After these words brackets must not be empty."""
OPERATORS = frozenset(
    {T.EQ, T.NEQ, T.LT, T.GT, T.LTE, T.GTE, T.PLUS, T.DASH, T.SLASH, T.MOD, T.DPIPE, T.ARROW, T.NULLSAFE_EQ}
)
_UNFINISHED = OPERATORS - {T.GT, T.MOD}
"""Operators after which something must come; > also ends a type."""
BEFORE_VALUE = frozenset(
    {*_ORDER, *OPERATORS, *_BRACKETS, T.COMMA, T.SELECT, T.DISTINCT, T.ALIAS, T.PARTITION_BY, T.FROM, T.JOIN, T.ON}
) | {T.AND, T.OR, T.NOT, T.CASE, T.WHEN, T.THEN, T.ELSE, T.BETWEEN, T.LIKE, T.RLIKE}
"""Where a name or a value must follow."""
_QUOTED = frozenset({T.STRING, T.IDENTIFIER})
_PARSER = Dialect.get_or_raise("spark").parser_class
_CONSTANTS = frozenset({T.NULL, T.TRUE, T.FALSE, T.DEFAULT})
_KNOWN_NAMES = frozenset({*_PARSER.ID_VAR_TOKENS, *_PARSER.NO_PAREN_FUNCTIONS, *_CONSTANTS})
_LEFT_ALONE = _KNOWN_NAMES - BEFORE_VALUE - {*_PARSER.SUBQUERY_PREDICATES}
"""Words that sqlglot takes for names itself where Spark does, and constants."""
_FIRST_IN_SELECT = frozenset({T.DISTINCT, T.ALL})
_AFTER_ALIAS = frozenset({T.COMMA, T.R_PAREN, T.WINDOW, T.LATERAL, *_CLAUSES})
_ALIASES = frozenset({T.LIMIT, T.HAVING, T.LIKE, T.ILIKE, T.RLIKE, T.IN, T.IS, T.BETWEEN})
"""Words that nothing can follow but what they need, or else they are aliases without AS: SELECT a limit, b."""
_NAMES = frozenset({T.LIMIT, T.HAVING, T.QUALIFY, T.EXISTS, T.VALUES, T.ON, T.USING, T.JOIN, T.IN, *_SETS})
"""Words that Spark takes for a name where a name must be."""


def check_grammar(sql: SqlText, tokens: Sequence[Token]) -> None:
    """SqlSyntaxError names the first place that Spark could not read."""
    words = to_words(tokens)
    found = [*_find_commas(words), *_find_empty(words), *_find_brackets(words)]
    if not any(token.text == "|>" for token in tokens):  # after a pipe, clauses come in any order
        found += _find_disorder(words)
    if found:
        word, text = min(found, key=lambda pair: pair[0].token.start)
        raise SqlSyntaxError(f"this SQL has a syntax error: {text}", location=sql.location(word.token.start))


@dataclass(frozen=True, slots=True)
class Word:
    """A token with what it is here: a keyword can be a name."""

    token: Token
    kind: T
    before: T | None = None
    after: T | None = None

    @property
    def text(self) -> str:
        """In upper case."""
        return str(self.token.text).upper()

    @property
    def is_last(self) -> bool:
        """Whether nothing belongs to it: a clause, a bracket or the whole text ends here."""
        return self.after is None or self.after in _CLOSING or self.after in _CLAUSES


def to_words(tokens: Sequence[Token]) -> list[Word]:
    """The tokens with what they are where they stand."""
    kinds: list[T] = []
    following = [*(token.token_type for token in tokens[1:]), None]
    for token, after in zip(tokens, following, strict=True):
        before = kinds[-1] if kinds else None
        is_word = token.token_type not in _QUOTED and str(token.text).isidentifier()
        is_empty_struct = token.text == "<>" and before is T.STRUCT  # STRUCT<> is a type
        is_name = is_word and (before is T.DOT or _is_keyword_name(token.token_type, before, after))
        is_plain = is_name or is_empty_struct or _is_name(token.token_type, before, after)
        kinds.append(T.VAR if is_plain else token.token_type)
    return [
        Word(token, kind, before, after)
        for token, kind, before, after in zip(tokens, kinds, [None, *kinds], [*kinds[1:], None], strict=False)
    ]


def _is_keyword_name(kind: T, before: T | None, after: T | None) -> bool:
    """Whether a word that sqlglot never takes for a name is the alias after AS, or a whole entry of SELECT."""
    if kind in _LEFT_ALONE or (kind in _FIRST_IN_SELECT and before is T.SELECT):
        return False
    if before is T.ALIAS:
        return after is None or after in _AFTER_ALIAS
    is_entry = before in {T.SELECT, T.COMMA} and kind is not T.FROM
    return is_entry and after in {None, T.COMMA, T.FROM, T.ALIAS, T.R_PAREN}


def _is_name(kind: T, before: T | None, after: T | None) -> bool:
    if kind is T.FROM:
        return before is T.DOT or (before in BEFORE_VALUE and after in {T.FROM, T.COMMA, *OPERATORS})
    if kind is T.SELECT:
        return before in {T.DOT, T.SELECT, T.COMMA}
    if kind is T.OFFSET:
        return after is not T.NUMBER
    if kind in _ALIASES and after in {T.COMMA, T.FROM} and before not in BEFORE_VALUE:
        return True
    if kind is T.WHERE:  # FILTER (WHERE ...)
        return before is T.DOT or (before in BEFORE_VALUE and before is not T.L_PAREN)
    return kind in _NAMES and (before is T.DOT or before in BEFORE_VALUE)


_Mistake: TypeAlias = tuple[Word, str]


def _find_commas(words: Sequence[Word]) -> Iterator[_Mistake]:
    for word in words:
        if word.kind is not T.COMMA:
            continue
        if word.before is None or word.before in BEFORE_VALUE:
            yield word, "nothing is before this comma"
        elif word.is_last:
            yield word, "nothing follows this comma"


def _find_empty(words: Sequence[Word]) -> Iterator[_Mistake]:
    has_types = any(word.kind is T.LT for word in words)
    for word in words:
        is_distinct = word.kind is T.DISTINCT and word.before is T.SELECT
        is_unfinished = word.kind in _UNFINISHED or (word.kind is T.GT and not has_types)
        if word.is_last and (word.kind in _NEEDS_MORE or is_distinct or is_unfinished):
            yield word, f"nothing follows {word.text}"
        if word.kind is T.L_PAREN and word.after is T.R_PAREN and word.before in _NEEDS_LIST:
            yield word, "this list is empty"


def _find_brackets(words: Sequence[Word]) -> Iterator[_Mistake]:
    opened: list[Word] = []
    for word in words:
        if word.kind in _BRACKETS:
            opened.append(word)
        elif word.kind in _CLOSING:
            if not opened or _BRACKETS[opened[-1].kind] is not word.kind:
                yield word, f"{word.text!r} closes nothing"
                return
            opened.pop()
    if opened:
        yield opened[-1], f"{opened[-1].text!r} is not closed"


def _find_disorder(words: Sequence[Word]) -> Iterator[_Mistake]:
    """Clauses of one query that come too late."""
    last: list[Word | None] = [None]
    for word in words:
        if word.kind is T.L_PAREN:
            last.append(None)
        elif word.kind is T.R_PAREN and len(last) > 1:
            last.pop()
        elif word.kind in _SETS or word.kind is T.SELECT:
            known = last[-1]
            if known is not None and _ORDER[known.kind] > _LATEST_BEFORE_SET and word.kind in _SETS:
                yield word, f"a query with {known.text} must be in brackets before {word.text}"
            last[-1] = None
        elif word.kind in _ORDER:
            known = last[-1]
            if known is not None and _ORDER[known.kind] > _ORDER[word.kind]:
                yield word, f"{word.text} must come before {known.text}"
            last[-1] = word
