"""What is around each part of a parsed query, found in one walk down: to climb up from each part of a long chain takes long.

Needs sqlglot; see `sql_parse`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

_Around = tuple[tuple[exp.Select, exp.Expr], ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """What is around a part of a query; a SELECT is in its own scope."""

    around: _Around = ()
    """The SELECTs whose sources a name at this place may belong to, the nearest first; each with its part that this is in."""
    outside: _Around = ()
    """Those around the nearest query."""
    query: exp.Expr | None = None
    """The nearest query: a SELECT, a UNION, brackets, ..."""
    parameters: frozenset[str] = frozenset()
    """The variables of lambdas, in lower case."""
    holders: frozenset[type[exp.Expr]] = frozenset()
    """In which of these it is: a hint, a type, `*`, `name => value`."""

    @property
    def selects(self) -> list[exp.Select]:
        """The SELECTs whose sources a name at this place may belong to, the nearest first."""
        return [select for select, _ in self.around]

    def inside(self, node: exp.Expr) -> Scope:
        """The scope of a part of this one."""
        scope = self
        if isinstance(node.parent, exp.Select) and self.around:
            scope = replace(scope, around=((node.parent, node), *self.around[1:]))
        if isinstance(node, exp.CTE) or _is_derived_table(node):
            # A query in WITH or FROM does not see the other sources of the SELECT that it belongs to.
            scope = replace(scope, around=self.outside)
        elif isinstance(node, exp.Select):
            scope = replace(scope, around=((node, node), *scope.around))
        if isinstance(node, exp.Query):
            scope = replace(scope, query=node, outside=self.around)
        if isinstance(node, exp.Lambda):
            names = {each.name.lower() for each in node.expressions}
            scope = replace(scope, parameters=scope.parameters.union(names))
        if isinstance(node, exp.Hint | exp.DataType | exp.Star | exp.Kwarg):
            scope = replace(scope, holders=scope.holders | {type(node)})
        return scope


class Scopes:
    """The scopes of all parts of one query."""

    def __init__(self, query: exp.Expr) -> None:
        self._found: dict[int, Scope] = {}
        waiting = [(query, Scope())]
        while waiting:
            node, around = waiting.pop()
            scope = self._found[id(node)] = around.inside(node)
            waiting += [(each, scope) for each in node.iter_expressions()]

    def of(self, node: exp.Expr) -> Scope:
        """What is around a part of the query."""
        return self._found[id(node)]


def _is_derived_table(node: exp.Expr) -> bool:
    return isinstance(node, exp.Subquery) and node.arg_key == "this" and isinstance(node.parent, exp.From | exp.Join)
