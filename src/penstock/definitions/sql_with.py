"""Which WITH query a name means. Needs sqlglot; see `sql_parse`."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp


def ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    """What is around a part of a query, the nearest first."""
    around = node.parent
    while around is not None:
        yield around
        around = around.parent


def find_with_query(table: exp.Table) -> exp.CTE | None:
    """The WITH query that a name means: the nearest one around it that is complete there."""
    inside: exp.Expr = table
    for around in ancestors(table):
        clause = around.args.get("with_")
        if isinstance(clause, exp.With) and inside is not clause:
            parts = clause.expressions
        elif isinstance(around, exp.With):
            parts = around.expressions[: [id(part) for part in around.expressions].index(id(inside))]
            clause = around
        else:
            parts = []
        for part in parts:
            if part.alias.lower() == table.name.lower():
                return None if clause is None or clause.args.get("recursive") else part
        inside = around
    return None
