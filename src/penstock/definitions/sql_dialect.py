"""Spark's own forms that sqlglot does not know, as tokens with the same meaning that it can parse.

Needs sqlglot's tokens; see `sql_parse`. The text of a query is never changed, and fingerprints cover its own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token
from sqlglot.tokenizer_core import TokenType as T

from penstock.definitions.sql_forms import to_call, to_form, to_interval
from penstock.definitions.sql_grammar import to_words
from penstock.definitions.sql_tokens import find_end, is_glued, kind_at, like, texts_at

_NEGATED = {T.LT: (T.GTE, ">="), T.GT: (T.LTE, "<=")}
_AFTER_NAME = frozenset(
    {T.COMMA, T.DOT, T.ALIAS, T.FROM, T.WHERE, T.GROUP_BY, T.HAVING, T.ORDER_BY, T.LIMIT, T.R_PAREN, T.R_BRACKET}
) | {T.EQ, T.NEQ, T.LT, T.GT, T.LTE, T.GTE, T.PLUS, T.DASH, T.STAR, T.SLASH, T.AND, T.OR, T.IS, T.IN, T.LIKE, T.BETWEEN}
"""What follows a column, and never the word VALUES of a list of rows."""
_CALLS = frozenset(Dialect.get_or_raise("spark").parser_class.NO_PAREN_FUNCTION_PARSERS)
"""Names that sqlglot takes for functions, unless they are quoted."""
_VALUES = frozenset({T.VAR, T.NUMBER, T.STRING, T.L_PAREN, T.IDENTIFIER})
_BEFORE_QUERY = frozenset({None, T.UNION, T.EXCEPT, T.INTERSECT, T.ALL, T.DISTINCT})
_Replaced: TypeAlias = tuple[list[Token], int]
_Rule: TypeAlias = Callable[[Sequence[Token], int, T | None], _Replaced | None]
_BEFORE_SUBQUERY = _BEFORE_QUERY | {T.FROM, T.JOIN, T.IN, T.EXISTS, T.ALIAS, T.L_PAREN}
_BEFORE_ARGUMENT = frozenset({T.L_PAREN, T.COMMA, T.FARROW})
_AFTER_ARGUMENT = frozenset({T.PARTITION_BY, T.DISTRIBUTE_BY, T.WITH, T.ORDER_BY, T.SORT_BY})
_PIPED = frozenset({T.DISTRIBUTE_BY, T.CLUSTER_BY, T.SORT_BY, T.LIMIT, T.OFFSET})
"""Steps after |> that sqlglot may not know; they read as ORDER BY does."""
_SETS = frozenset({T.UNION, T.EXCEPT, T.INTERSECT})
_BEFORE_TABLE = frozenset({T.FROM, T.JOIN, T.COMMA})
_STARTS = frozenset({T.SELECT, T.FROM, T.VALUES})


def to_plain(tokens: Sequence[Token]) -> list[Token]:
    """The tokens without forms that sqlglot would misread.

    `TABLE t` is `SELECT * FROM t`, X goes from before bytes, IDENTIFIER('f')(a) is f(a), and signs go from inside an interval.
    """
    tokens = _with_replaced(tokens, (to_call, to_interval))
    found: list[Token] = []
    for place, token in enumerate(tokens):
        outer, before, after = (kind_at(tokens, place + each) for each in (-2, -1, 1))
        is_query = before in _BEFORE_QUERY or (before is T.L_PAREN and outer in _BEFORE_SUBQUERY)
        is_bytes = token.token_type is T.VAR and str(token.text).upper() == "X" and after is T.STRING
        if token.token_type is T.TABLE and is_query and after is not T.L_PAREN:
            found += _select_all(token)
        elif not is_bytes or before in {T.DOT, T.ALIAS}:
            found.append(token)
    return found


def to_readable(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with Spark's own forms replaced."""
    tokens = _with_brackets(_without_partitioning(_with_names(tokens)))
    return _with_replaced(tokens, (_to_name, _to_step, _to_query, _to_value, _to_operator, to_form))


def _with_replaced(tokens: Sequence[Token], rules: Sequence[_Rule]) -> list[Token]:
    """The tokens with what the first rule that knows a form makes of it."""
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        before = found[-1].token_type if found else None
        results = (rule(tokens, place, before) for rule in rules)
        replaced, used = next((result for result in results if result is not None), ([tokens[place]], 1))
        found += replaced
        place += used
    return found


def _with_names(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with each keyword that is a name as one."""
    return [
        like(word.token, T.IDENTIFIER if word.text in _CALLS else T.VAR)
        if word.kind is T.VAR and word.after in _AFTER_NAME | {None}
        else word.token
        for word in to_words(tokens)
    ]


def _with_brackets(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with brackets around each query that follows `|> UNION` or similar."""
    opened: set[int] = set()
    closed: dict[int, int] = {}
    for place, token in enumerate(tokens):
        if token.token_type in _SETS and kind_at(tokens, place - 1) is T.PIPE_GT:
            start = place + 1
            while kind_at(tokens, start) in {T.ALL, T.DISTINCT}:
                start += 1
            if kind_at(tokens, start) in _STARTS:
                opened.add(start)
                end = find_end(tokens, start, {T.PIPE_GT})
                closed[end] = closed.get(end, 0) + 1
    found: list[Token] = []
    for place, token in enumerate(tokens):
        found += [like(token, T.L_PAREN, "(")] if place in opened else []
        found.append(token)
        found += [like(token, T.R_PAREN, ")")] * closed.get(place + 1, 0)
    return found


def _without_partitioning(tokens: Sequence[Token]) -> list[Token]:
    """The tokens without what follows a table in `f(TABLE(t) PARTITION BY a ORDER BY b)`."""
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        is_argument = token.token_type is T.TABLE and kind_at(tokens, place - 1) in _BEFORE_ARGUMENT
        if not is_argument or kind_at(tokens, place + 1) is not T.L_PAREN:
            found.append(token)
            place += 1
            continue
        end = find_end(tokens, place + 2, {T.PIPE_GT}) + 1
        found += tokens[place:end]
        place = find_end(tokens, end, {T.COMMA}) if kind_at(tokens, end) in _AFTER_ARGUMENT else end
    return found


def _to_name(tokens: Sequence[Token], place: int, before: T | None) -> _Replaced | None:
    """A keyword that is the name of a column or function here."""
    token, after = tokens[place], kind_at(tokens, place + 1)
    kind = token.token_type
    is_window = kind is T.WINDOW and kind_at(tokens, place + 2) is not T.ALIAS
    is_column = kind is T.VALUES and (after is None or after in _AFTER_NAME)
    is_offset = kind is T.OFFSET and before is not T.PIPE_GT and after not in {T.NUMBER, T.L_PAREN, T.COLON}
    is_field = before is T.DOT and kind is not T.VAR and str(token.text).isidentifier()
    return ([like(token, T.VAR)], 1) if is_window or is_column or is_offset or is_field else None


def _to_step(tokens: Sequence[Token], place: int, before: T | None) -> _Replaced | None:
    """A step after |>, as far as reads go: SET and DROP are like columns that are added."""
    token = tokens[place]
    if before is not T.PIPE_GT:
        return None
    if token.token_type in {T.SET, T.DROP}:
        return [like(token, T.VAR, "EXTEND")], 1
    return ([like(token, T.ORDER_BY, "ORDER BY")], 1) if token.token_type in _PIPED else None


def _to_query(tokens: Sequence[Token], place: int, before: T | None) -> _Replaced | None:
    token, after = tokens[place], kind_at(tokens, place + 1)
    kind = token.token_type
    if kind is T.CLUSTER_BY and before is T.L_PAREN and kind_at(tokens, place - 2) is T.OVER:
        return [like(token, T.PARTITION_BY, "PARTITION BY")], 1
    if kind is T.TABLE and before is T.R_PAREN and after in {T.VAR, T.IDENTIFIER}:  # after WITH x AS (...)
        return _select_all(token), 1
    if kind is T.VALUES and before is T.L_PAREN and kind_at(tokens, place - 2) in _BEFORE_TABLE:
        return [*_select_all(token), token], 1
    if place == 0 and kind is T.VALUES and any(each.token_type is T.PIPE_GT for each in tokens):
        return [*_select_all(token), token], 1
    if texts_at(tokens, place, 3) == ["MAX", "RECURSION", "LEVEL"] and kind_at(tokens, place + 3) is T.NUMBER:
        return [], 4
    return None


def _to_value(tokens: Sequence[Token], place: int, before: T | None) -> _Replaced | None:
    """Texts and types."""
    token = tokens[place]
    if token.token_type is T.STRING and before is T.RAW_STRING and is_glued(tokens, place - 1, 2):  # r'it''s'
        return [], 1
    if before is T.ALIAS and texts_at(tokens, place, 4) == ["GEOGRAPHY", "(", "ANY", ")"]:
        return [like(token, T.INT, "INT")], 4
    if before is T.ALIAS and token.token_type is T.VAR and str(token.text).upper() == "VOID":
        return [like(token, T.INT, "INT")], 1
    return None


def _to_operator(tokens: Sequence[Token], place: int, before: T | None) -> _Replaced | None:
    token, after = tokens[place], kind_at(tokens, place + 1)
    kind = token.token_type
    if kind is T.NOT and after in _NEGATED and is_glued(tokens, place, 2):  # !< and !>
        return [like(tokens[place + 1], *_NEGATED[after])], 2
    if kind is T.GT and _is_shift(tokens, place):
        return [token, tokens[place + 1]], 3
    if kind is T.COLON and is_glued(tokens, place - 1, 3) and before in {T.VAR, T.IDENTIFIER, T.R_BRACKET, T.R_PAREN}:
        path = list(_find_path(tokens, place + 1))
        if path:
            shown = "".join(str(each.text) for each in path)
            inside = [like(token, T.L_BRACKET, "["), like(token, T.STRING, shown), like(token, T.R_BRACKET, "]")]
            return inside, 1 + len(path)
    return None


def _select_all(token: Token) -> list[Token]:
    return [like(token, T.SELECT, "SELECT"), like(token, T.STAR, "*"), like(token, T.FROM, "FROM")]


def _is_shift(tokens: Sequence[Token], place: int) -> bool:
    """`a >>> 1`, and not the end of a type such as array<array<array<int>>>."""
    three = [kind_at(tokens, place + each) for each in range(3)] == [T.GT] * 3
    return three and is_glued(tokens, place, 3) and kind_at(tokens, place + 3) in _VALUES


def _find_path(tokens: Sequence[Token], place: int) -> Iterator[Token]:
    """The fields and places that follow `column:` in a value of type VARIANT."""
    depth = 0
    for number, token in enumerate(tokens[place:]):
        kind = token.token_type
        is_bracket = kind in {T.L_BRACKET, T.R_BRACKET}
        previous = kind_at(tokens, place + number - 1)
        is_field = kind in {T.VAR, T.IDENTIFIER} and (number == 0 or previous is T.DOT)
        if not (depth or is_bracket or is_field or (kind is T.DOT and number)):
            return
        depth += {T.L_BRACKET: 1, T.R_BRACKET: -1}.get(kind, 0)
        if depth < 0:
            return
        yield token
