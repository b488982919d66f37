"""Forms of other databases that sqlglot reads and Spark does not, each with what Spark writes instead.

Needs sqlglot's tokens; see `sql_parse`. Only what no query of Spark can have is refused: a word that may be a name is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from sqlglot.tokenizer_core import Token
from sqlglot.tokenizer_core import TokenType as T

from penstock.definitions.sql_foreign_types import find_types
from penstock.definitions.sql_grammar import BEFORE_VALUE, Word, to_words
from penstock.definitions.sql_misread import find_misread
from penstock.definitions.sql_places import Places
from penstock.definitions.sql_text import SqlSyntaxError, SqlText

_SETS = frozenset({T.UNION, T.INTERSECT, T.EXCEPT})
_COMPARISONS = frozenset({T.EQ, T.NEQ, T.LT, T.GT, T.LTE, T.GTE})
_BEFORE_STAR = frozenset({T.SELECT, T.COMMA, T.DOT, T.DISTINCT})
_AGGREGATES = frozenset(
    {"SUM", "COUNT", "AVG", "MIN", "MAX", "COLLECT_LIST", "COLLECT_SET", "ARRAY_AGG", "LISTAGG", "STRING_AGG"}
) | {"GROUP_CONCAT", "MAX_BY", "MIN_BY", "COUNT_IF"}
_STAR_ADVICE = {
    "EXCLUDE": "Spark writes this * EXCEPT (column)",
    "REPLACE": "write * EXCEPT (column), expression AS column",
    "RENAME": "write * EXCEPT (column), column AS name",
}
_DAY = re.compile(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T].*)?\s*")


@dataclass(frozen=True, slots=True)
class _Foreign:
    """The place of a form, what it is, and what helps."""

    word: Word
    text: str
    hint: str | None = None


def check_foreign(sql: SqlText, tokens: Sequence[Token], *, is_whole: bool = True) -> None:
    """SqlSyntaxError names the first form that Spark does not have. In a text that is not whole, anything may be missing."""
    words = to_words(tokens)
    places = Places(words)
    found = [each for find in _RULES for each in find(sql, words, places)]
    others = (*find_types(words, places), *(find_misread(sql, words, places) if is_whole else ()))
    found += [_Foreign(word, text, hint) for word, text, hint in others]
    if found:
        first = min(found, key=lambda each: each.word.token.start)
        place = sql.location(first.word.token.start)
        raise SqlSyntaxError(f"this SQL has a syntax error: {first.text}", hint=first.hint, location=place)


def _find_names(sql: SqlText, words: Sequence[Word], _: Places) -> Iterator[_Foreign]:
    for word in words:
        text = str(word.token.text)
        is_plain = word.token.token_type is T.VAR and sql.text.startswith(text, word.token.start)
        if is_plain and "\0" in text:
            yield _Foreign(word, "it contains a NUL character", "remove the character")
        elif is_plain and not text.isascii() and text.isidentifier():
            yield _Foreign(word, f"the name {text} must be in back quotes", f"write `{text}`")
        if word.kind is T.STRING and word.before is T.ALIAS and sql.text.startswith("'", word.token.start):
            yield _Foreign(word, "a name cannot be a text", f"write the name in back quotes: AS `{text}`")


def _find_limits(_: SqlText, words: Sequence[Word], places: Places) -> Iterator[_Foreign]:
    for place, word in enumerate(words):
        first, second, third = places.texts(place + 1, 3)
        if word.kind is T.LIMIT and second == "," and word.after is T.NUMBER:
            yield _Foreign(
                words[place + 2], "LIMIT takes one number", f"Spark writes this LIMIT {third} OFFSET {first}"
            )
        if word.kind is T.FETCH and first in {"FIRST", "NEXT"}:
            yield _Foreign(word, "Spark has no FETCH", "Spark writes this LIMIT 5")


def _find_sets(_: SqlText, words: Sequence[Word], places: Places) -> Iterator[_Foreign]:
    for place, word in enumerate(words):
        if word.kind in _SETS:
            rest = [text for text in places.texts(place + 1, 3) if text not in {"ALL", "DISTINCT"}]
            if rest[:2] == ["BY", "NAME"]:
                yield _Foreign(word, f"Spark SQL has no {word.text} BY NAME", "list the columns in the same order")


def _find_orders(_: SqlText, words: Sequence[Word], places: Places) -> Iterator[_Foreign]:
    for place, word in enumerate(words):
        is_name = word.before is None or word.before in BEFORE_VALUE
        if word.kind in {T.ASC, T.DESC} and word.after in {T.ASC, T.DESC} and not is_name:
            yield _Foreign(words[place + 1], f"{word.text} {words[place + 1].text} contradicts itself")
        if word.kind is T.ORDER_BY and places.function_around(place) in _AGGREGATES:
            advice = (
                "sort what it returns, as in array_sort(collect_list(a)), or use listagg(a) WITHIN GROUP (ORDER BY b)"
            )
            yield _Foreign(word, "a function cannot have ORDER BY", advice)


def _find_functions(_: SqlText, words: Sequence[Word], places: Places) -> Iterator[_Foreign]:
    for place, word in enumerate(words):
        following = places.texts(place + 1, 2)
        called = places.function_around(place)
        is_nulls = word.text in {"IGNORE", "RESPECT"} and following == ["NULLS", ")"]
        if is_nulls and called in {"LEAD", "LAG", "NTH_VALUE"}:
            text = f"{word.text} NULLS must be after the closing bracket"
            yield _Foreign(word, text, f"write {called.lower()}(a) {word.text} NULLS OVER (...)")
        is_filter = word.kind is T.FILTER and following[0] == "(" and following[1] != "WHERE"
        if is_filter and word.before is T.R_PAREN and places.function_before(place - 1) in _AGGREGATES:
            yield _Foreign(word, "WHERE is missing in FILTER", "write FILTER (WHERE b > 1)")
        if word.kind in {T.ALL, T.ANY, T.SOME} and word.before in _COMPARISONS and following == ["(", "SELECT"]:
            advice = "write IN (SELECT ...), or compare with (SELECT max(a) ...) or (SELECT min(a) ...)"
            yield _Foreign(word, f"Spark cannot compare with {word.text} of a subquery", advice)


def _find_operators(_: SqlText, words: Sequence[Word], places: Places) -> Iterator[_Foreign]:
    for place, word in enumerate(words):
        following = places.texts(place + 1, 2)
        if word.kind is T.STAR and word.before in _BEFORE_STAR and following[1] == "(" and following[0] in _STAR_ADVICE:
            yield _Foreign(words[place + 1], f"Spark has no * {following[0]}", _STAR_ADVICE[following[0]])
        if word.text == "AT" and following == ["TIME", "ZONE"] and word.before not in BEFORE_VALUE:
            advice = "use from_utc_timestamp(a, 'Europe/Paris') or to_utc_timestamp(a, 'Europe/Paris')"
            yield _Foreign(word, "Spark has no AT TIME ZONE", advice)
        if word.kind is T.L_BRACKET and word.before in BEFORE_VALUE - {T.GT}:  # > may end a type
            yield _Foreign(word, "a list is not written in square brackets", "write array(1, 2)")
        if word.kind is T.ISNULL and following[0] != "(" and places.is_condition(place - 1):
            yield _Foreign(word, "Spark has no ISNULL", "write IS NULL")


def _find_clauses(_: SqlText, words: Sequence[Word], places: Places) -> Iterator[_Foreign]:
    for place, word in enumerate(words):
        if word.kind is T.USING and word.after in {T.VAR, T.IDENTIFIER}:
            yield _Foreign(word, "the columns of USING must be in brackets", f"write USING ({places.shown(place + 1)})")
        if word.kind is T.ALIAS and places.texts(place + 1, 2) == ["MATERIALIZED", "("]:
            yield _Foreign(words[place + 1], "a WITH query cannot be MATERIALIZED", "remove MATERIALIZED")


def _find_choices(_: SqlText, words: Sequence[Word], places: Places) -> Iterator[_Foreign]:
    for place, word in enumerate(words):
        is_first = word.before in {T.SELECT, T.DISTINCT}
        if word.text == "TOP" and is_first and word.after is T.NUMBER:
            yield _Foreign(word, "Spark has no TOP", f"write LIMIT {places.shown(place + 1)} at the end of the query")
        if word.text == "ON" and word.before is T.DISTINCT and word.after is T.L_PAREN:
            advice = "write max_by(b, c) with GROUP BY a, or keep the rows with row_number() OVER (PARTITION BY a ORDER BY c) = 1"
            yield _Foreign(word, "Spark has no DISTINCT ON", advice)


def _find_days(_: SqlText, words: Sequence[Word], __: Places) -> Iterator[_Foreign]:
    for before, word in pairwise(words):
        is_literal = word.kind is T.STRING and before.text in {"DATE", "TIMESTAMP"} and before.before is not T.DOT
        match = _DAY.fullmatch(str(word.token.text)) if is_literal else None
        if match is not None and int(match[1]) and not _is_day(*map(int, match.groups())):
            yield _Foreign(word, f"there is no day {match[1]}-{match[2]}-{match[3]}")


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


_Rule = Callable[[SqlText, Sequence[Word], Places], Iterator[_Foreign]]
_RULES: tuple[_Rule, ...] = (
    _find_names,
    _find_limits,
    _find_sets,
    _find_orders,
    _find_functions,
    _find_operators,
    _find_clauses,
    _find_choices,
    _find_days,
)
