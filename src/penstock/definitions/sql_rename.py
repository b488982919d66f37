"""The same query with other names for the tables that it reads. Needs sqlglot; see `sql_parse`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from penstock.definitions.sql_parse import parse_with_reads
from penstock.definitions.sql_text import SqlText
from penstock.model.types import quote_name

NewName = Callable[[str], str | None]
"""What to write for a table that a query reads; None to leave it as it is."""


def rename_reads(query: str, new_name: NewName) -> str:
    """The query with other names for its tables; all other words and the lines that they are on stay as they are.

    A renamed table keeps its own name as alias, so that columns can still be named by it.
    """
    tree, with_reads = parse_with_reads(SqlText("query", query, query))
    tables = [each for each in tree.find_all(exp.Table) if id(each) not in with_reads]
    renamed: dict[str, str] = {}
    edits: list[tuple[int, int, str]] = []
    for table in tables:
        is_name = not isinstance(table.this, exp.Func) and table.find_ancestor(exp.Hint) is None
        name = ".".join(part.name for part in table.parts) if is_name else ""
        new = new_name(name) if name else None
        if new is not None:
            renamed[name.lower()] = new
            # TABLESAMPLE must stand between a table and its alias: then columns cannot be named by the table.
            keeps_name = not table.alias and not table.args.get("sample")
            alias = f" AS {quote_name(table.name)}" if keeps_name else ""
            edits.append((*_span(table.parts), new + alias))
    edits += _find_qualifiers(tree, renamed)
    for start, end, text in sorted(edits, reverse=True):
        query = query[:start] + text + query[end:]
    return query


def _find_qualifiers(tree: exp.Expr, renamed: dict[str, str]) -> Iterator[tuple[int, int, str]]:
    """Columns that are named with the database, `staging.orders.amount`: the alias has none."""
    for column in tree.find_all(exp.Column):
        above, table = column.parts[:-2], column.parts[-2:-1]
        if above and ".".join(part.name for part in (*above, *table)).lower() in renamed:
            yield _span([*above, *table])[0], _span(table)[0], ""


def _span(parts: Sequence[exp.Expr]) -> tuple[int, int]:
    """Where a name starts and ends in the text."""
    return int(parts[0].meta["start"]), int(parts[-1].meta["end"]) + 1
