"""Where a definition in SQL names a dataset that it reads, for messages. The text is parsed again: only errors ask for it."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import DefinitionError, Location
from penstock.model.names import DatasetName
from penstock.model.spec import DatasetSpec


def find_read(spec: DatasetSpec, name: DatasetName) -> Location:
    """The place of the name in the query; that of the definition, if the query does not show it."""
    if spec.sql is None or spec.query_line is None:
        return spec.location
    texts = {str(name): 0, f"spark_catalog.{name}": 0, name.name: 1}
    found = sorted((texts[text], offset) for text, offset in _find_tables(spec.sql) if text in texts)
    return _to_place(spec, spec.sql[: found[0][1]]) if found else spec.location


def _find_tables(query: str) -> Iterator[tuple[str, int]]:
    """The tables of a query, in lower case, and where each is named."""
    from sqlglot import exp

    from penstock.definitions.sql_parse import parse_with_reads
    from penstock.definitions.sql_text import SqlText

    try:
        tree, with_reads = parse_with_reads(SqlText("query", query, query))
    except DefinitionError:  # such as parameters of a partition, which are filled in only when it runs
        return
    for table in tree.find_all(exp.Table):
        start = table.parts[0].meta.get("start") if table.parts else None
        if isinstance(start, int) and id(table) not in with_reads:
            yield ".".join(part.name for part in table.parts).lower(), start


def _to_place(spec: DatasetSpec, before: str) -> Location:
    """A place in the file; without a column, where values that are filled in move it."""
    line = (spec.query_line or 1) + before.count("\n")
    if spec.query_column is None:
        return Location(spec.location.file, line)
    column = len(before) - (before.rfind("\n") + 1) + 1
    return Location(spec.location.file, line, column if "\n" in before else column + spec.query_column - 1)
