"""Mistakes that the text of a query shows without any schema: numbers of columns that do not fit, and aggregates in WHERE.

Needs sqlglot; see `sql_parse`. Only what is certain from the text counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from penstock.definitions.sql_grouping import find_nested, find_ungrouped
from penstock.definitions.sql_misread import find_misparsed
from penstock.definitions.sql_scopes import Scopes
from penstock.definitions.sql_text import SqlSyntaxError, SqlText
from penstock.definitions.sql_windows import find_windows
from penstock.model.wording import counted

Width = Callable[[exp.Expr], int | None]
"""How many columns a query has, if that is certain."""

_AGGREGATES = (exp.Sum, exp.Count, exp.Max, exp.Min, exp.Avg, exp.Window)
_AROUND_VALUES = (exp.Alias, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Add, exp.Sub, exp.Mul, exp.Div)
_Found = Iterator[tuple[exp.Expr, str]]


def check_counts(query: exp.Expr, sql: SqlText, width: Width) -> None:
    """SqlSyntaxError for the first of these mistakes."""
    for check in (
        _find_aggregates,
        _find_ordinals,
        _find_wide_values,
        _find_uneven_rows,
        _find_alias_lists,
        _find_ungrouped,
        _find_windows,
        _find_twins,
        _find_misparsed,
    ):
        for part, message in check(query, width):
            raise SqlSyntaxError(message, location=sql.location(_place_of(part)))


def check_row_wise(condition: exp.Expr, sql: SqlText, start: int) -> None:
    """SqlSyntaxError for an aggregate in a condition that each row must meet."""
    for found in condition.find_all(*_AGGREGATES):
        raise SqlSyntaxError(
            "a condition on each row cannot have an aggregate or a window function",
            hint="compute it in the query, as a column of the result",
            location=sql.location(start_of(found) or start),
        )


def start_of(part: exp.Expr) -> int:
    """Where the first name in a part of the query is."""
    places = (name.meta.get("start") for name in part.find_all(exp.Identifier))
    return min((place for place in places if isinstance(place, int)), default=0)


def _place_of(part: exp.Expr) -> int:
    """Where a part is, or the nearest name around it: keywords and functions have no place."""
    while not (start := start_of(part)) and part.parent is not None:
        part = part.parent
    return start


def _find_aggregates(query: exp.Expr, width: Width) -> _Found:
    """In a subquery, an aggregate may belong to the query around it; a generator may not."""
    del width
    scopes = Scopes(query)
    for where in query.find_all(exp.Where):
        select = where.parent
        for generator in where.find_all(exp.Explode):
            if scopes.of(generator).query is select:
                yield generator, "explode() and posexplode() cannot be in WHERE: use LATERAL VIEW"
        if not isinstance(select, exp.Select) or len(scopes.of(select).around) != 1:
            continue
        for found in where.find_all(*_AGGREGATES):
            if scopes.of(found).query is select:
                what = "a window function" if isinstance(found, exp.Window) else "an aggregate"
                yield found, f"{what} cannot be in WHERE: use {'QUALIFY' if 'window' in what else 'HAVING'}"


def _find_ordinals(query: exp.Expr, width: Width) -> _Found:
    for select in query.find_all(exp.Select):
        count = width(select)
        group, order = select.args.get("group"), select.args.get("order")
        items = [*(group.expressions if group else ()), *(each.this for each in (order.expressions if order else ()))]
        for item in items:
            if count is not None and isinstance(item, exp.Literal) and item.is_int and not 1 <= int(item.name) <= count:
                yield select, f"GROUP BY or ORDER BY {item.name}: the SELECT list has {counted(count, 'item')}"


def _find_wide_values(query: exp.Expr, width: Width) -> _Found:
    """A subquery that is a value, or is compared with one, has one column."""
    for part in query.find_all(exp.Subquery):
        holder = part.parent
        is_entry = isinstance(holder, exp.Select) and part.arg_key == "expressions"
        is_value = is_entry or type(holder) in _AROUND_VALUES
        is_compared = isinstance(holder, exp.In) and part.arg_key == "query" and isinstance(holder.this, exp.Column)
        count = width(part.this) if is_value or is_compared else None
        if count is not None and count > 1:
            yield part, f"a subquery that is a value must have one column, not {count}"


def _find_uneven_rows(query: exp.Expr, width: Width) -> _Found:
    del width
    for values in query.find_all(exp.Values):
        counts = sorted(_row_widths(values) or ())
        if len(counts) > 1:
            yield values, f"the rows of VALUES must have the same number of columns, not {counts[0]} and {counts[-1]}"


def _find_alias_lists(query: exp.Expr, width: Width) -> _Found:
    for part in query.find_all(exp.Values, exp.CTE, exp.Subquery):
        alias = part.args.get("alias")
        given = len(alias.columns) if isinstance(alias, exp.TableAlias) else 0
        rows = _row_widths(part) if isinstance(part, exp.Values) else None
        count = next(iter(rows)) if rows is not None and len(rows) == 1 else None
        if not isinstance(part, exp.Values) and not part.args.get("pivots"):
            count = width(part.this)
        if isinstance(alias, exp.TableAlias) and count is not None and given not in {0, count}:
            yield alias, f"{alias.name} names {counted(given, 'column')}, and has {count}"


def _find_ungrouped(query: exp.Expr, width: Width) -> _Found:
    del width
    yield from find_ungrouped(query)
    yield from find_nested(query)


def _find_windows(query: exp.Expr, width: Width) -> _Found:
    del width
    return find_windows(query)


def _find_misparsed(query: exp.Expr, width: Width) -> _Found:
    del width
    return find_misparsed(query)


def _find_twins(query: exp.Expr, width: Width) -> _Found:
    del width
    for clause in query.find_all(exp.With):
        seen: set[str] = set()
        for part in clause.expressions:
            if part.alias.lower() in seen:
                yield part.args["alias"], f"two WITH queries are called {part.alias}"
            seen.add(part.alias.lower())


def _row_widths(values: exp.Values) -> set[int] | None:
    """The numbers of columns of the rows; None if a row may have been written in another form, such as struct(1, 2)."""
    found = set()
    for row in values.expressions:
        if not isinstance(row, exp.Tuple) or (
            len(row.expressions) == 1 and not isinstance(row.expressions[0], exp.Literal)
        ):
            return None
        found.add(len(row.expressions))
    return found
