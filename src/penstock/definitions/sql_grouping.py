"""Columns of SELECT that are neither grouped nor in an aggregate. Needs sqlglot; see `sql_parse`.

Only what is certain from the text counts: a name that may be an alias, or an argument of a function that may be an aggregate, may
stand there.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from penstock.definitions.sql_columns import SELECT_ARGS, has_only, is_special
from penstock.definitions.sql_scopes import Scopes

AGGREGATES = (exp.Sum, exp.Count, exp.Max, exp.Min, exp.Avg, exp.CountIf, exp.ArrayAgg)
_AROUND_VALUES = frozenset(
    {exp.Alias, exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Cast, exp.Case, exp.If, exp.Coalesce, exp.Upper}
) | {
    exp.Lower,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.DPipe,
    exp.TryCast,
}
"""What is no aggregate itself, so that a column in it is not in one."""
_OTHERS = (exp.Window, exp.Query, exp.Lambda)
"""An aggregate in these may be none of this query."""
_SELECT_ARGS = SELECT_ARGS | {"laterals", "qualify"}


def find_ungrouped(query: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    """Each such column, and what is wrong with it."""
    scopes = Scopes(query)
    for select in query.find_all(exp.Select):
        if len(scopes.of(select).around) == 1 and has_only(
            select, _SELECT_ARGS
        ):  # else a name may be one of a query around it
            yield from _find_beside(select) if select.args.get("group") is None else _find_grouped(select)


def _find_beside(select: exp.Select) -> Iterator[tuple[exp.Expr, str]]:
    """Beside an aggregate, without GROUP BY."""
    if select.args.get("from_") is None or not any(map(_has_aggregate, select.expressions)):
        return
    aliases = _to_aliases(select)
    for entry in select.expressions:
        for column, names in _find_bare(entry):
            if not names & aliases:
                yield column, f"{column.name} is not in an aggregate, and there is no GROUP BY"
        star = entry.this if isinstance(entry, exp.Column) else entry
        if isinstance(star, exp.Star) and not star.args.get("except_"):
            yield entry, "* cannot be beside an aggregate"


def _find_grouped(select: exp.Select) -> Iterator[tuple[exp.Expr, str]]:
    """Not in GROUP BY, if there are only columns and no aliases that may be meant."""
    group = select.args["group"]
    items = group.expressions if has_only(group, frozenset({"expressions"})) else []
    if not items or not all(isinstance(each, exp.Column) for each in items):
        return
    clauses = [select.args.get("from_"), *(select.args.get("joins") or [])]
    tables = {clause.this.alias_or_name.lower() for clause in clauses if clause is not None}
    grouped = {name for each in items for name in _without_table(each, tables)}
    aliases = _to_aliases(select)
    if aliases & grouped:
        return
    for entry in select.expressions:
        for column, names in _find_bare(entry):
            if not names & (grouped | aliases):
                yield column, f"{column.name} is neither in GROUP BY nor in an aggregate"


def find_nested(query: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    """Each aggregate whose argument has an aggregate; over a window, that is allowed."""
    for outer in query.find_all(*AGGREGATES):
        part: exp.Expr = outer
        while isinstance(part.parent, exp.Filter) and part.arg_key == "this":
            part = part.parent
        is_windowed = isinstance(part.parent, exp.Window) and part.arg_key == "this"
        if type(outer) in AGGREGATES and not is_windowed and any(map(_has_aggregate, outer.iter_expressions())):
            yield outer, "an aggregate cannot be in an aggregate: compute the inner one in a subquery"


def _to_aliases(select: exp.Select) -> set[str]:
    return {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)}


def _has_aggregate(entry: exp.Expr) -> bool:
    return any(type(each) in AGGREGATES for each in entry.walk(prune=lambda each: isinstance(each, _OTHERS)))


def _find_bare(entry: exp.Expr) -> Iterator[tuple[exp.Column, set[str]]]:
    """The columns that are in no function but those that are known not to be aggregates, with their words."""
    waiting = [entry]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
            names = {word.name.lower() for word in part.parts}
            if not any(map(is_special, names)):
                yield part, names
        elif type(part) in _AROUND_VALUES:
            waiting += reversed([*part.iter_expressions()])


def _without_table(column: exp.Column, tables: set[str]) -> list[str]:
    names = [part.name.lower() for part in column.parts]
    return names[1:] if len(names) > 1 and names[0] in tables else names
