"""Results that no table can have: two columns of one name, or a UNION of queries with different numbers of columns.

Needs sqlglot; see `sql_parse`. Only what is certain from the text counts: what `*` or a generator gives is not counted here.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.definitions.sql_columns import has_only
from penstock.definitions.sql_counts import check_counts, start_of
from penstock.definitions.sql_needs import ARITHMETIC
from penstock.definitions.sql_text import SqlSyntaxError, SqlText
from penstock.errors import DefinitionError

_ONE_COLUMN = (exp.Alias, exp.Literal, exp.Cast, exp.Case, exp.Count, exp.Sum, exp.Max, exp.Min, exp.Avg, *ARITHMETIC)
_CALLED_BY_TEXT = frozenset({exp.Count, exp.Sum, exp.Max, exp.Min, exp.Avg, *ARITHMETIC})
_CHANGING = ("kind", "operation_modifiers", "pivots")
_ORDERING = frozenset({"distribute", "sort", "cluster", "order", "limit", "offset"})
_SUBQUERY_ARGS = frozenset({"this", "alias", "with_", "sample"}) | _ORDERING
"""Parts of a query in brackets that leave its columns as they are; a join in the same brackets adds some."""


def check_widths(query: exp.Expr, sql: SqlText) -> None:
    """SqlSyntaxError for UNION, EXCEPT or INTERSECT of queries whose numbers of columns differ, and the like."""
    for union in query.find_all(exp.SetOperation):
        left, right = _width(union.this), _width(union.expression)
        if left is not None and right is not None and left != right and not union.args.get("by_name"):
            raise SqlSyntaxError(
                f"both sides of {union.key.upper()} must have the same number of columns, not {left} and {right}",
                location=sql.location(start_of(union.expression)),
            )
    check_counts(query, sql, _width)


def check_names(query: exp.Expr, sql: SqlText) -> None:
    """DefinitionError if two columns of the result have one name: Delta cannot store them."""
    select = _first_select(query)
    seen: set[str] = set()
    if select is not None:
        _check_texts(select, sql)
    for entry in select.expressions if select is not None else ():
        word = entry.args.get("alias") if isinstance(entry, exp.Alias) else entry.this
        if not isinstance(entry, exp.Alias | exp.Column) or not isinstance(word, exp.Identifier):
            continue
        if word.name.lower() in seen and isinstance(word.meta.get("start"), int):
            raise DefinitionError(
                f"two columns of the result are called {word.name}",
                hint=f"give one of them another name: ... AS other_{word.name}",
                location=sql.location(word.meta["start"]),
            )
        seen.add(word.name.lower())


def _check_texts(select: exp.Select, sql: SqlText) -> None:
    """DefinitionError if two columns are called by the same text, such as `(id + 1)`; an alias may change what is meant."""
    seen: set[str] = set()
    if any(isinstance(entry, exp.Alias) for entry in select.expressions):
        return
    for entry in select.expressions:
        text = entry.sql(dialect="spark") if type(entry) in _CALLED_BY_TEXT else ""
        if text and text in seen:
            raise DefinitionError(
                f"two columns of the result are called {text}",
                hint="give one of them another name with AS",
                location=sql.location(start_of(entry) or start_of(select)),
            )
        seen.add(text)


def _first_select(query: exp.Expr) -> exp.Select | None:
    """The SELECT that names the columns of the result."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return query if isinstance(query, exp.Select) and not _is_changed(query) else None


def _width(query: exp.Expr) -> int | None:
    """How many columns a query has, if that is certain."""
    if isinstance(query, exp.Subquery):
        return _width(query.this) if has_only(query, _SUBQUERY_ARGS) else None
    if isinstance(query, exp.SetOperation):
        return None if query.args.get("by_name") else _width(query.this)
    if not isinstance(query, exp.Select) or _is_changed(query):
        return None
    is_known = all(isinstance(entry, _ONE_COLUMN) or _is_name(entry) for entry in query.expressions)
    return len(query.expressions) if is_known and query.expressions else None


def _is_changed(query: exp.Expr) -> bool:
    return any(query.args.get(each) for each in _CHANGING)


def _is_name(entry: exp.Expr) -> bool:
    return isinstance(entry, exp.Column) and not isinstance(entry.this, exp.Star)
