"""Which columns the inputs of a parsed query must have, or else Spark rejects it. Needs sqlglot; see `sql_parse`.

A need that is missed costs a late error; one that is wrong stops a definition that works. So whatever is not understood here
(a table function, PIVOT, an expression without a name, ...) may have any column, and nothing is needed of what may come from it.
Schemas are not known here: the result depends on the text alone, and is kept in the parse cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from penstock.definitions.sql_certain import Certain, find_hidden, find_namesakes, find_places
from penstock.definitions.sql_columns import (
    SELECT_ARGS,
    TABLE_ARGS,
    has_only,
    hides_names,
    input_of,
    is_in_hint,
    is_keyword,
    is_special,
)
from penstock.definitions.sql_facts import ColumnNeed, ResultColumns
from penstock.definitions.sql_reads import WithReads
from penstock.definitions.sql_scopes import Scope, Scopes
from penstock.definitions.sql_text import SqlText
from penstock.definitions.sql_with import find_with_query

_WORD = re.compile(r"[^\W\d]\w*")
_NAMESPACES = frozenset({"session", "system", "builtin"})
"""What may stand before the name of a variable of the session."""
_CHANGING = ("pivots", "joins", "laterals")
"""What gives an entry of FROM other columns than its list of aliases says."""
_BEFORE_SELECT = frozenset({"where", "joins", "laterals"})
"""Clauses that do not see what SELECT computes."""
_OF_UNION = frozenset({"sort", "cluster", "distribute", "windows"})
_AFTER_DISTINCT = frozenset({"order", "sort", "cluster", "distribute"})
"""Clauses that see nothing but the result of SELECT DISTINCT."""
_BESIDE_JOINS = frozenset({"from_", "joins", "laterals"})
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div)
_FUNCTIONS = (exp.Count, exp.Sum, exp.Max, exp.Min, exp.Avg, exp.Window, exp.Case, exp.Coalesce, exp.Upper, exp.Lower)
_CALLED_BY_TEXT = (*ARITHMETIC, *_FUNCTIONS)
"""Expressions that Spark calls by their text, such as `sum(a)`, which is not a word. Others may have any name: `explode(b)` is
called `col`, and `(a)` is called `a`."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """The columns that a part of a query may have: those of these names, and all columns of these inputs."""

    names: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()
    is_open: bool = False
    """It may have columns of any name."""
    has_texts: bool = False
    """It may have columns whose names are not words, such as `sum(a)`."""

    def may_make(self, name: str) -> bool:
        """Tell whether a column of this name may come from something else than the inputs."""
        return self.is_open or name in self.names or (self.has_texts and _WORD.fullmatch(name) is None)


_NOTHING = _Shape()
_ANYTHING = _Shape(is_open=True)


@dataclass(frozen=True, slots=True)
class _Source:
    """An entry of FROM or JOIN: its name in the query, whether a database may stand before it, and its columns."""

    name: str
    is_qualified: bool
    shape: _Shape


def find_needs(
    query: exp.Expr, tokens: list[Token], sql: SqlText, with_reads: WithReads, scopes: Scopes
) -> tuple[tuple[ColumnNeed, ...], ResultColumns]:
    """What must exist so that each column that is certainly read can be found, in the order of the text; and the result."""
    if hides_names(tokens):
        return (), ResultColumns()
    needs = _Needs(sql, with_reads)
    found = [need for column in query.find_all(exp.Column) for need in needs.of_column(column, scopes.of(column))]
    found += [need for join in query.find_all(exp.Join) for need in needs.of_using(join)]
    first: dict[object, ColumnNeed] = {}
    for need in sorted(found, key=lambda each: (each.line, each.column, each.name)):
        first.setdefault((need.reads, need.others, need.is_open, need.name, need.places), need)
    return tuple(first.values()), needs.of_result(query)


class _Needs:
    """The shapes of the parts of one query, each found once."""

    def __init__(self, sql: SqlText, with_reads: WithReads) -> None:
        self._sql = sql
        self._with_reads = with_reads
        self._sources: dict[int, list[_Source]] = {}
        self._shapes: dict[int, _Shape] = {}
        self._entries: dict[int, list[_Shape]] = {}
        self._certain = Certain(with_reads)

    def of_column(self, column: exp.Column, scope: Scope) -> Iterator[ColumnNeed]:
        """What must exist for this name, and where it must not be twice; nothing when it may be found in any case."""
        parts = column.parts[:-1] if isinstance(column.this, exp.Star) else column.parts
        names = [part.name.lower() for part in parts]
        if scope.around and names and _is_certain(column, parts[0], names, scope):
            existing = self._of_existing(column, parts, names, scope)
            if existing is not None:
                existing = replace(existing, advice=_advise(names, scope))
            yield from filter(None, (existing, self._of_shared(column, scope), self._of_namesakes(column, scope)))
        elif isinstance(scope.query, exp.SetOperation) and not scope.around and len(column.parts) == 1:
            yield from filter(None, [self._of_ordered(column, scope, scope.query)])

    def _of_existing(
        self, column: exp.Column, parts: list[exp.Expr], names: list[str], scope: Scope
    ) -> ColumnNeed | None:
        is_star = isinstance(column.this, exp.Star)
        visible = [source for around in scope.around for source in self._sources_seen(*around)]
        everything = _union([s.shape for s in visible] + [self._entries_seen(*around) for around in scope.around])
        owned = _find_owners(visible, [*names, "*"] if is_star else names)
        if len(names) == 1 and not is_star:
            select, inside = scope.around[0]
            if len(scope.around) == 1 and inside.arg_key in _AFTER_DISTINCT and select.args.get("distinct"):
                everything = self._shape_of(select)
            is_row = names[0] in {source.name for source in visible}
            return None if is_row else self._to_need(everything, names[0], parts[0])
        if not owned:
            return self._of_qualifier(everything, parts[0], visible)
        # In `address.city` the first word may be a column too, even if a table is called so.
        if is_star or any(shape.may_make(name) for name, shape in owned) or names[0] in everything.names:
            return None
        reads = tuple(sorted({(table, name) for name, shape in owned for table in shape.inputs}))
        others = tuple((table, names[0]) for table in sorted(everything.inputs))
        is_open, known = everything.may_make(names[0]), _to_known(_union(shape for _, shape in owned))
        return ColumnNeed(reads, *self._place(column.this), others, is_open, owned[0][0], known=known)

    def _of_ordered(self, column: exp.Column, scope: Scope, query: exp.SetOperation) -> ColumnNeed | None:
        """What must exist for a name in ORDER BY of a UNION or similar: a column of its result."""
        name = column.name.lower()
        is_name = isinstance(column.this, exp.Identifier) and isinstance(column.this.meta.get("start"), int)
        if not is_name or not name or is_special(name) or name in scope.parameters or is_keyword(column, scope):
            return None
        return self._to_need(self._shape_of(query), name, column.this)

    def of_result(self, query: exp.Expr) -> ResultColumns:
        """What the result may have."""
        shape = self._shape_of(query)
        names, inputs = tuple(sorted(shape.names)), tuple(sorted(shape.inputs))
        return ResultColumns(names, inputs, shape.is_open, shape.has_texts, self._certain.of_query(query))

    def _of_shared(self, column: exp.Column, scope: Scope) -> ColumnNeed | None:
        """An unqualified name must not be in two entries of FROM."""
        is_name = len(column.parts) == 1 and isinstance(column.this, exp.Identifier)
        places = find_places(column, scope, self._certain) if is_name else {}
        if len(places) < 2:
            return None
        name, known = column.name.lower(), tuple(places)
        return ColumnNeed((), *self._place(column.this), name=name, known=known, places=tuple(places.values()))

    def _of_namesakes(self, column: exp.Column, scope: Scope) -> ColumnNeed | None:
        """`o.id` must not be in two entries of FROM that are both called o."""
        places = find_namesakes(column, scope, self._certain)
        if len(places) < 2:
            return None
        name, owner = column.name.lower(), column.parts[0].name.lower()
        known, advice = (owner,) * len(places), f"several tables are called {owner}: give one of them another name"
        return ColumnNeed((), *self._place(column.this), name=name, known=known, places=places, advice=advice)

    def _entries_seen(self, select: exp.Select, inside: exp.Expr) -> _Shape:
        """The entries of SELECT that a name may mean: the earlier ones for an entry, all of them for clauses that come later."""
        if inside.arg_key in _BEFORE_SELECT:
            return _NOTHING
        if id(select) not in self._entries:
            self._entries[id(select)] = [
                _NOTHING if _is_simple(each) else _to_name(each) for each in select.expressions
            ]
        entries = self._entries[id(select)]
        return _union(entries[: inside.index] if inside.arg_key == "expressions" else entries)

    def _of_qualifier(self, everything: _Shape, word: exp.Expr, visible: list[_Source]) -> ColumnNeed | None:
        """What must exist for the first word of `x.y`, if no table is called so: a column with fields."""
        name = word.name.lower()
        if name in _NAMESPACES or name.startswith("__"):
            return None
        need = self._to_need(everything, name, word)
        tables = tuple(sorted({source.name for source in visible if source.name}))
        return replace(need, is_qualifier=True, known=tables) if need is not None else None

    def _to_need(self, shape: _Shape, name: str, word: exp.Expr) -> ColumnNeed | None:
        if shape.may_make(name):
            return None
        reads = tuple((table, name) for table in sorted(shape.inputs))
        return ColumnNeed(reads, *self._place(word), name=name, known=_to_known(shape))

    def _place(self, word: exp.Expr) -> tuple[int, int]:
        location = self._sql.location(word.meta["start"])
        return location.line or 1, location.column or 1

    def of_using(self, join: exp.Join) -> Iterator[ColumnNeed]:
        """What must exist for the names of USING: each on both sides."""
        select = join.parent
        if not isinstance(select, exp.Select) or _is_unusual(select):
            return
        sources = self._sources_of(select)
        # The first source is that of FROM.
        right = 1 + [id(each) for each in select.args["joins"]].index(id(join))
        for name in join.args.get("using") or ():
            for side in (sources[:right], sources[right : right + 1]):
                shape = _union(source.shape for source in side)
                if isinstance(name.meta.get("start"), int):
                    yield from filter(None, [self._to_need(shape, name.name.lower(), name)])

    def _sources_of(self, select: exp.Select) -> list[_Source]:
        if id(select) not in self._sources:
            first = select.args.get("from_")
            clauses = [*([first] if first else []), *(select.args.get("joins") or [])]
            nodes = [*(clause.this for clause in clauses), *(select.args.get("laterals") or [])]
            self._sources[id(select)] = [self._to_source(node) for node in nodes]
        return self._sources[id(select)]

    def _sources_seen(self, select: exp.Select, inside: exp.Expr) -> list[_Source]:
        """The sources without those of SEMI and ANTI JOIN, whose columns are only there for ON."""
        sources, hidden = self._sources_of(select), find_hidden(select)
        if inside.arg_key in _BESIDE_JOINS or not hidden:
            return sources
        return [source for at, source in enumerate(sources) if at - 1 not in hidden]

    def _to_source(self, node: exp.Expr) -> _Source:
        alias = node.args.get("alias")
        is_named = isinstance(alias, exp.TableAlias)
        renamed = alias.columns if isinstance(alias, exp.TableAlias) else []
        shape = self._shape_of_source(node)
        if renamed and not any(node.args.get(key) for key in _CHANGING):
            shape = _Shape(frozenset(column.name.lower() for column in renamed))
        return _Source(node.alias_or_name.lower(), isinstance(node, exp.Table) and not is_named, shape)

    def _shape_of_source(self, node: exp.Expr) -> _Shape:
        if isinstance(node, exp.Subquery):
            return self._shape_of(node)
        if not isinstance(node, exp.Table) or not has_only(node, TABLE_ARGS):
            return _ANYTHING
        if id(node) in self._with_reads:
            part = find_with_query(node)
            return self._shape_of_with(part) if part is not None else _ANYTHING
        name = input_of(node, self._with_reads)
        return _Shape(inputs=frozenset({name})) if name is not None else _ANYTHING

    def _shape_of_with(self, part: exp.CTE) -> _Shape:
        alias = part.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            return _Shape(frozenset(column.name.lower() for column in alias.columns))
        return self._shape_of(part.this)

    def _shape_of(self, query: exp.Expr) -> _Shape:
        if id(query) not in self._shapes:
            self._shapes[id(query)] = self._to_shape(query)
        return self._shapes[id(query)]

    def _to_shape(self, query: exp.Expr) -> _Shape:
        if isinstance(query, exp.Subquery):
            is_plain_subquery = not any(value for key, value in query.args.items() if key not in {"this", "alias"})
            return self._shape_of(query.this) if is_plain_subquery else _ANYTHING
        if isinstance(query, exp.SetOperation):
            sides = [query.this, query.expression] if query.args.get("by_name") else [query.this]
            return _union(map(self._shape_of, sides))
        if not isinstance(query, exp.Select) or _is_unusual(query):
            return _ANYTHING
        return _union(self._shape_of_entry(entry, query) for entry in query.expressions)

    def _shape_of_entry(self, entry: exp.Expr, select: exp.Select) -> _Shape:
        sources = self._sources_seen(select, entry)
        if isinstance(entry, exp.Star):
            return _ANYTHING if entry.args.get("rename") else _union(source.shape for source in sources)
        if isinstance(entry, exp.Column) and isinstance(entry.this, exp.Star):
            names = [part.name.lower() for part in entry.parts[:-1]]
            owned = [source.shape for source in sources if _is_called(source, names)]
            return _union(owned) if owned and not entry.this.args.get("rename") else _ANYTHING
        return _to_name(entry)


def _is_certain(column: exp.Column, first: exp.Expr, names: list[str], scope: Scope) -> bool:
    """Whether a word must be a column of what is in FROM: not an alias, a variable of a lambda or something special."""
    words = (first, first if isinstance(column.this, exp.Star) else column.this)
    if is_in_hint(scope) or is_keyword(column, scope):
        return False
    if not all(isinstance(word.meta.get("start"), int) for word in words):
        return False
    if is_special(names[0]) or "_metadata" in names or not all(names):
        return False
    if any(map(_is_unusual, scope.selects)) or not isinstance(scope.query, exp.Select):
        return False
    return names[0] not in scope.parameters and not _is_of_union(*scope.around[0])


def _is_of_union(select: exp.Select, inside: exp.Expr) -> bool:
    """Whether a clause belongs to the UNION that ends with this SELECT: sqlglot does so with ORDER BY only."""
    return inside.arg_key in _OF_UNION and isinstance(select.parent, exp.SetOperation)


def _advise(names: list[str], scope: Scope) -> str:
    """Why a name that is in the text is not seen at this place."""
    for select, inside in scope.around:
        aliases = {entry.alias.lower() for entry in select.expressions if isinstance(entry, exp.Alias)}
        if inside.arg_key in _AFTER_DISTINCT and select.args.get("distinct"):
            return "ORDER BY and the like see only the columns of the result after SELECT DISTINCT"
        if len(names) == 1 and inside.arg_key in _BEFORE_SELECT and names[0] in aliases:
            return (
                f"{names[0]} is an alias of SELECT, which WHERE, ON and LATERAL VIEW cannot use: repeat its expression"
            )
        joins = select.args.get("joins") or []
        if len(names) > 1 and names[0] in {joins[at].this.alias_or_name.lower() for at in find_hidden(select)}:
            return f"only ON can use {names[0]}: a SEMI or ANTI JOIN keeps the columns of the left side"
    return ""


def _find_owners(sources: Iterable[_Source], names: list[str]) -> list[tuple[str, _Shape]]:
    """Each way to read `x.y.z` as a table and its column: the name of the column, and the columns of the table."""
    return [
        (names[count], source.shape)
        for source in sources
        for count in range(1, len(names))
        if _is_called(source, names[:count])
    ]


def _is_called(source: _Source, names: list[str]) -> bool:
    """Whether these words may name the source; `main.t` also names a table that is written as `t`."""
    return bool(names) and source.name == names[-1] and (len(names) == 1 or source.is_qualified)


def _to_known(shape: _Shape) -> tuple[str, ...]:
    """The columns that it has, if it has no others."""
    return () if shape.inputs else tuple(sorted(name for name in shape.names if _WORD.fullmatch(name)))


def _union(shapes: Iterable[_Shape]) -> _Shape:
    found = [shape for shape in shapes if shape != _NOTHING]
    if len(found) < 2:
        return found[0] if found else _NOTHING
    return _Shape(
        frozenset().union(*(shape.names for shape in found)),
        frozenset().union(*(shape.inputs for shape in found)),
        any(shape.is_open for shape in found),
        any(shape.has_texts for shape in found),
    )


def _to_name(entry: exp.Expr) -> _Shape:
    """The name that an entry of SELECT other than * gets."""
    if isinstance(entry, exp.Alias | exp.Column):
        return _Shape(frozenset({entry.alias_or_name.lower()}))
    if isinstance(entry, exp.Literal):
        return _Shape(frozenset({entry.name.lower()}), has_texts=True)
    if type(entry) is exp.Cast and isinstance(entry.this, exp.Column):
        # Spark calls `CAST(a AS INT)` `a`.
        return _Shape(frozenset({entry.this.name.lower()}), has_texts=True)
    return _Shape(has_texts=True) if isinstance(entry, _CALLED_BY_TEXT) else _ANYTHING


def _is_simple(entry: exp.Expr) -> bool:
    """Whether an entry gives no new name: * and plain columns. The last word of `a.b` may be a field."""
    is_star = isinstance(entry, exp.Star) or (isinstance(entry, exp.Column) and isinstance(entry.this, exp.Star))
    return is_star or (isinstance(entry, exp.Column) and len(entry.parts) == 1)


def _is_unusual(select: exp.Select) -> bool:
    return not has_only(select, SELECT_ARGS | {"laterals", "qualify"})
