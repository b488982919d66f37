"""Which columns of its inputs a parsed query reads. Needs sqlglot; see `sql_parse`.

An extra column costs a needless recompute; a missing one leaves a table wrong. So every word that may be a column name counts
for every table, unless the parser knows its table. An input of which the query may read all columns is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from penstock.definitions.sql_facts import Columns
from penstock.definitions.sql_reads import WithReads
from penstock.definitions.sql_scopes import Scope, Scopes
from penstock.definitions.sql_text import SqlText

_PARSER = Dialect.get_or_raise("spark").parser_class
_NAMES = frozenset({TokenType.IDENTIFIER, *_PARSER.ID_VAR_TOKENS, *_PARSER.NO_PAREN_FUNCTIONS})
_HIDING = frozenset({"identifier", "table", "stream"})
PLAIN_NAME = re.compile(r"[\w -]*")
_CLAUSES = frozenset(
    {"where", "group", "having", "windows", "distribute", "sort", "cluster", "order", "limit", "offset"}
)
SELECT_ARGS = _CLAUSES | {"with_", "hint", "operation_modifiers", "distinct", "expressions", "from_", "joins"}
TABLE_ARGS = frozenset({"this", "db", "catalog", "alias", "sample"})
JOIN_ARGS = frozenset({"this", "on", "using", "side", "kind"})
_WITH_UNIT = frozenset({"timestampadd", "dateadd", "date_add", "timestampdiff", "datediff", "date_diff", "timediff"})
_UNITS = frozenset({"year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second"}) | {
    "millisecond",
    "microsecond",
}
_NOT_COLUMNS = frozenset(
    {"user", "localtime", "localtimestamp", "grouping__id", "_metadata", "window", "all", "default"}
)
_NOT_COLUMN_STARTS = ("current_", "session_")
"""Functions that need no parentheses, columns that every table has, and words that sqlglot may take for columns."""


class _Source(NamedTuple):
    """An entry of FROM or JOIN: its name in the query, and the input behind it, if any."""

    name: str
    table: str | None


def find_columns(
    query: exp.Expr, inputs: Iterable[str], tokens: list[Token], sql: SqlText, with_reads: WithReads, scopes: Scopes
) -> Columns:
    """The columns that may be read of each input, in lower case. An input that is absent may be read as a whole."""
    if hides_names(tokens):
        return {}
    reads = _Reads(query, with_reads, scopes)
    for column in query.find_all(exp.Column):
        reads.add_column(column)
    for star in query.find_all(exp.Star):
        reads.add_star(star)
    reads.add_words(_loose_words(query, tokens, sql.text, scopes))
    known = [name for name in inputs if name in reads.columns and name not in reads.whole]
    return {name: tuple(sorted(reads.columns[name])) for name in known}


class _Reads:
    """The columns read of each table, collected name by name."""

    def __init__(self, query: exp.Expr, with_reads: WithReads, scopes: Scopes) -> None:
        self._scopes = scopes
        self._sources = {id(select): _sources_of(select, with_reads) for select in query.find_all(exp.Select)}
        named = [table for table in query.find_all(exp.Table) if input_of(table, with_reads) is not None]
        tables = [table for table in named if not is_in_hint(scopes.of(table))]
        self.whole = {_text(table) for table in tables if not _is_plain(table)}
        self.columns: dict[str, set[str]] = {_text(table): set() for table in tables}

    def add_column(self, column: exp.Column) -> None:
        names = [part.name.lower() for part in column.parts if not isinstance(part, exp.Star)]
        visible = self._visible(column)
        owners = [source for source in visible if source.name == names[0]] if names else []
        if len(column.parts) == 1:
            # The name of a table alone means its whole row.
            self.whole.update(source.table for source in owners if source.table)
            self._add(visible, names)
        elif len(column.parts) == 2 and owners:
            self._add(owners, names[1:])
            # In `address.city` the first word may be a column even though a table is called so.
            self._add(visible, names[:1])
        else:
            self._add(visible, names)

    def add_star(self, star: exp.Star) -> None:
        holder = star.parent
        if isinstance(holder, exp.Count) and not holder.expressions:
            return
        if isinstance(holder, exp.Column):
            called = {part.name.lower() for part in holder.parts}
            sources = [source for source in self._visible(holder) if source.name in called]
        else:
            sources = self._nearest(star)
        self.whole.update(source.table for source in sources if source.table)

    def add_words(self, words: Iterable[str]) -> None:
        self._add(self._all(), words)

    def _add(self, sources: list[_Source], names: Iterable[str]) -> None:
        names = tuple(names)
        for source in sources:
            if source.table is not None:
                self.columns[source.table].update(names)

    def _visible(self, node: exp.Expr) -> list[_Source]:
        """What a name at this place may belong to: the sources of its SELECT and, in a subquery, of those around it."""
        scope = self._scopes.of(node)
        if not isinstance(scope.query, exp.Select):
            return self._all()
        return [source for select in scope.selects for source in self._sources[id(select)]]

    def _nearest(self, node: exp.Expr) -> list[_Source]:
        query = self._scopes.of(node).query
        return self._sources[id(query)] if isinstance(query, exp.Select) else self._all()

    def _all(self) -> list[_Source]:
        return [source for sources in self._sources.values() for source in sources]


def _sources_of(select: exp.Select, with_reads: WithReads) -> list[_Source]:
    first = select.args.get("from_")
    nodes = [clause.this for clause in ([first] if first else []) + (select.args.get("joins") or [])]
    return [_Source(node.alias_or_name.lower(), input_of(node, with_reads)) for node in nodes]


def input_of(node: exp.Expr, with_reads: WithReads) -> str | None:
    """The input that is named here; None for a WITH query, a function and all else."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or id(node) in with_reads:
        return None
    return _text(node)


def _text(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def _is_plain(table: exp.Table) -> bool:
    """Tell whether a table is read in a way in which columns are read by name only: no PIVOT, NATURAL JOIN or similar."""
    clause = table.parent
    select = clause.parent if isinstance(clause, exp.From | exp.Join) else None
    if not isinstance(select, exp.Select) or not has_only(select, SELECT_ARGS) or not has_only(table, TABLE_ARGS):
        return False
    alias = table.args.get("alias")
    has_new_names = isinstance(alias, exp.TableAlias) and bool(alias.columns)
    return not has_new_names and all(has_only(join, JOIN_ARGS) for join in select.args.get("joins") or [])


def is_in_hint(scope: Scope) -> bool:
    """A hint is parsed separately: its places are not those of the text, and the tables that it names are read anyway."""
    return exp.Hint in scope.holders


def is_keyword(column: exp.Column, scope: Scope) -> bool:
    """What sqlglot takes for a column, and Spark does not: a collation, also in a type, and the unit of a function of dates."""
    holder = column.parent
    if isinstance(holder, exp.Collate) and holder.expression is column:
        return True
    if exp.DataType in scope.holders:
        return True
    if not isinstance(holder, exp.Anonymous) or holder.name.lower() not in _WITH_UNIT or column.index != 0:
        return False
    return len(holder.expressions) == 3 and column.name.lower() in _UNITS


def is_special(name: str) -> bool:
    """Tell whether a name in lower case may be something else than a column of an input."""
    return name in _NOT_COLUMNS or name.startswith(_NOT_COLUMN_STARTS)


def has_only(node: exp.Expr, allowed: frozenset[str]) -> bool:
    """Tell whether a node has no other parts than these."""
    return all(key in allowed for key, value in node.args.items() if value)


def hides_names(tokens: list[Token]) -> bool:
    """Tell whether columns may be read that are not written: IDENTIFIER('name'), a regular expression in back quotes, |>."""
    calls = (a.text.lower() in _HIDING and b.text == "(" for a, b in pairwise(tokens))
    patterns = (t.token_type is TokenType.IDENTIFIER and not PLAIN_NAME.fullmatch(t.text) for t in tokens)
    return any(calls) or any(patterns) or any(token.token_type is TokenType.PIPE_GT for token in tokens)


def _loose_words(query: exp.Expr, tokens: list[Token], text: str, scopes: Scopes) -> list[str]:
    """Words that may be columns, but that the parser has not made part of a column, a table or an alias.

    Such are those of USING, and the first argument of date_trunc(unit, day), which sqlglot takes for a keyword.
    """
    placed = {
        (name.meta.get("start"), name.name)
        for name in query.find_all(exp.Identifier)
        if isinstance(name.parent, exp.Column | exp.Table | exp.TableAlias | exp.Alias)
        and not is_in_hint(scopes.of(name))
    }
    after = [token.text for token in tokens[1:]] + [""]
    return [
        token.text.lower()
        for token, following in zip(tokens, after, strict=True)
        if (token.start, token.text) not in placed and following != "(" and _may_be_name(token, text)
    ]


def _may_be_name(token: Token, text: str) -> bool:
    # With spark.sql.ansi.doubleQuotedIdentifiers, "note" is a column.
    return token.token_type in _NAMES or (token.token_type is TokenType.STRING and text[token.start] == '"')
