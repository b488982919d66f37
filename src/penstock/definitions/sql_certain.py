"""Which columns the parts of a parsed query certainly have, and names that two of them have. Needs sqlglot; see `sql_parse`.

This is the other side of `sql_needs`, which knows what a part may have. Whatever is not understood here gives no columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from sqlglot import exp

from penstock.definitions.sql_columns import JOIN_ARGS, SELECT_ARGS, TABLE_ARGS, has_only, input_of
from penstock.definitions.sql_facts import CertainColumns
from penstock.definitions.sql_reads import WithReads
from penstock.definitions.sql_scopes import Scope
from penstock.definitions.sql_with import find_with_query

_SELECT_ARGS = (SELECT_ARGS | {"qualify"}) - {"operation_modifiers"}
_SUBQUERY_ARGS = frozenset({"this", "alias", "sample"})
_LEFT_ONLY = frozenset({"SEMI", "ANTI"})

Columns = tuple[CertainColumns, ...]


class Visible(NamedTuple):
    """An entry of FROM or JOIN: its name in the query, and the columns that it certainly has."""

    name: str
    columns: Columns


class Certain:
    """The certain columns of the parts of one query, each found once."""

    def __init__(self, with_reads: WithReads) -> None:
        self._with_reads = with_reads
        self._found: dict[int, Columns] = {}

    def of_query(self, query: exp.Expr) -> Columns:
        """The columns of a result, in their order."""
        if id(query) not in self._found:
            self._found[id(query)] = ()  # for a query that reads itself
            self._found[id(query)] = tuple(self._of_query(query))
        return self._found[id(query)]

    def _of_query(self, query: exp.Expr) -> Iterable[CertainColumns]:
        if isinstance(query, exp.Subquery):
            return self.of_query(query.this) if has_only(query, _SUBQUERY_ARGS) else ()
        if isinstance(query, exp.SetOperation):
            return self.of_query(query.this)
        if not isinstance(query, exp.Select) or not has_only(query, _SELECT_ARGS):
            return ()
        return [column for entry in query.expressions for column in self._of_entry(entry, query)]

    def _of_entry(self, entry: exp.Expr, select: exp.Select) -> Iterable[CertainColumns]:
        star = entry.this if isinstance(entry, exp.Column) else entry
        if isinstance(star, exp.Star):
            if not has_only(star, frozenset({"except_"})):
                return ()
            owners = entry.parts[:-1] if isinstance(entry, exp.Column) else []
            columns = self._of_owner(owners, select) if owners else self._of_joined(select)
            return _leave_out(columns, (each.name.lower() for each in star.args.get("except_") or ()))
        if isinstance(entry, exp.Alias):
            return _to_names([entry.args["alias"]])
        return _to_names([entry.this]) if isinstance(entry, exp.Column) else ()

    def _of_owner(self, owners: list[exp.Expr], select: exp.Select) -> Columns:
        """The columns of `x.*`; none if several entries are called so, or none, as for a column with fields."""
        found = [each.columns for each in self.visible(select) or () if each.name == owners[-1].name.lower()]
        return found[0] if len(found) == 1 and len(owners) == 1 else ()

    def _of_joined(self, select: exp.Select) -> Columns:
        """The columns of `*`: those that USING merges come first, and once."""
        sources = self.sources(select)
        if sources is None:
            return ()
        found = sources[0].columns if sources else ()
        for source, join in zip(sources[1:], select.args.get("joins") or (), strict=True):
            merged = [name.name.lower() for name in join.args.get("using") or ()]
            right = () if join.kind in _LEFT_ONLY else _leave_out(source.columns, merged)
            found = (*(CertainColumns(name) for name in merged), *_leave_out(found, merged), *right)
        return found

    def sources(self, select: exp.Select) -> list[Visible] | None:
        """The entry of FROM, then those of JOIN; None if columns come together in a way that is not known here."""
        joins = select.args.get("joins") or []
        first = select.args.get("from_")
        if first is None or not has_only(select, _SELECT_ARGS) or not all(has_only(each, JOIN_ARGS) for each in joins):
            return None
        return [Visible(each.this.alias_or_name.lower(), self._of_source(each.this)) for each in (first, *joins)]

    def visible(self, select: exp.Select, joined: int | None = None) -> list[Visible] | None:
        """The entries that a name may belong to: in the whole query, or in ON of the join of this number."""
        sources = self.sources(select)
        inside = (select.args.get("joins") or [])[joined].this if joined is not None else None
        if sources is None or isinstance(inside, exp.Lateral):  # what LATERAL f(a) reads is before it
            return None
        joins, hidden = (select.args.get("joins") or [])[: None if joined is None else joined + 1], find_hidden(select)
        seen = [at for at, _ in enumerate(joins) if at not in hidden or at == joined]
        return [sources[0], *(sources[at + 1] for at in seen)]

    def _of_source(self, node: exp.Expr) -> Columns:
        alias = node.args.get("alias")
        if isinstance(node, exp.Table) and not has_only(node, TABLE_ARGS):
            return ()
        if not isinstance(node, exp.Table) and not has_only(node, _SUBQUERY_ARGS | {"expressions"}):
            return ()
        if isinstance(alias, exp.TableAlias) and alias.columns:
            return _to_names(alias.columns)
        if isinstance(node, exp.Subquery):
            return self.of_query(node)
        if not isinstance(node, exp.Table):
            return ()
        if id(node) in self._with_reads:
            return self._of_with(find_with_query(node))
        name = input_of(node, self._with_reads)
        return (CertainColumns(input=name),) if name is not None else ()

    def _of_with(self, part: exp.CTE | None) -> Columns:
        alias = part.args.get("alias") if part is not None else None
        if isinstance(alias, exp.TableAlias) and alias.columns:
            return _to_names(alias.columns)
        return self.of_query(part.this) if part is not None else ()


def find_hidden(select: exp.Select) -> list[int]:
    """The joins whose columns are only there for their ON, by number."""
    return [at for at, join in enumerate(select.args.get("joins") or ()) if join.kind in _LEFT_ONLY]


def _to_names(words: Iterable[object]) -> Columns:
    return tuple(CertainColumns(word.name.lower()) for word in words if isinstance(word, exp.Identifier))


def _leave_out(columns: Iterable[CertainColumns], names: Iterable[str]) -> Columns:
    """The columns without those of these names."""
    out = frozenset(names)
    return tuple(
        replace(each, without=tuple(sorted(out.union(each.without)))) if each.input else each
        for each in columns
        if each.input or each.name not in out
    )


def find_places(column: exp.Column, scope: Scope, certain: Certain) -> dict[str, tuple[str, ...]]:
    """By entry of FROM: the inputs of which one must have an unqualified name so that it has it; none if it surely does."""
    (select, inside), name = scope.around[0], column.name.lower()
    joins = select.args.get("joins") or []
    if not joins or inside.arg_key not in {"expressions", "where", "joins"} or scope.holders & {exp.Star, exp.Kwarg}:
        return {}  # the other clauses may mean an alias
    others = (entry for entry in select.expressions if entry is not inside)
    merged = (word.name.lower() for join in joins for word in join.args.get("using") or ())
    if name in merged or any(isinstance(entry, exp.Alias) and entry.alias.lower() == name for entry in others):
        return {}
    joined = [id(join) for join in joins].index(id(inside)) if inside.arg_key == "joins" else None
    entries = certain.visible(select, joined) or []
    if name in {entry.name for entry in entries} or len({entry.name for entry in entries}) < len(entries):
        return {}
    return {entry.name: places for entry in entries if (places := _inputs_with(entry.columns, name)) is not None}


def find_namesakes(column: exp.Column, scope: Scope, certain: Certain) -> tuple[tuple[str, ...], ...]:
    """For `o.id`, by entry of FROM that is called o: the inputs of which one must have `id`; none if the entry surely has it."""
    select, inside = scope.around[0]
    joins = select.args.get("joins") or []
    is_field = len(column.parts) != 2 or not isinstance(column.this, exp.Identifier)
    if is_field or not joins or inside.arg_key not in {"expressions", "where", "joins"}:
        return ()
    owner, name = (part.name.lower() for part in column.parts)
    if name in (word.name.lower() for join in joins for word in join.args.get("using") or ()):
        return ()
    joined = [id(join) for join in joins].index(id(inside)) if inside.arg_key == "joins" else None
    entries = [entry for entry in certain.visible(select, joined) or [] if entry.name == owner]
    return tuple(places for entry in entries if (places := _inputs_with(entry.columns, name)) is not None)


def _inputs_with(columns: Columns, name: str) -> tuple[str, ...] | None:
    if any(each.name == name for each in columns):
        return ()
    return tuple(sorted({each.input for each in columns if each.input and name not in each.without})) or None
