"""Definition files in SQL, and queries inside Python definitions: parsed once, then answered from the cache."""

from __future__ import annotations

import json
from collections.abc import Mapping

from penstock.definitions.parse_cache import ParseCache, cache_key
from penstock.definitions.sql_facts import QueryFacts, SqlStatement, facts_from_json, statement_from_json, to_json
from penstock.definitions.sql_text import fill_variables
from penstock.model.project import Scalar

_DAMAGED = (TypeError, KeyError, ValueError, AttributeError)


def read_sql_file(file: str, text: str, variables: Mapping[str, Scalar], cache: ParseCache) -> tuple[SqlStatement, ...]:
    """Read the statements of a SQL definition file; raises with file, line and column.

    `file` is the path shown in messages. Variables are part of the cache key, because places depend on them.
    """
    sql = fill_variables(file, text, variables)
    # The places in a result follow from the two texts, so the two texts are the key.
    key = cache_key("file", text, sql.text)
    kept = cache.get(key)
    if kept is not None:
        try:
            return tuple(statement_from_json(statement) for statement in kept)
        except _DAMAGED:
            pass
    from penstock.definitions.sql_statements import parse_statements

    statements = parse_statements(sql)
    cache.put(key, _as_stored([to_json(statement) for statement in statements]))
    return statements


def read_query(text: str, cache: ParseCache) -> QueryFacts:
    """Read what a query reads; places are those in the query's text. Raises DefinitionError when it does not parse.

    A text may have holes: then a remark says what could not be seen.
    """
    key = cache_key("query", text)
    kept = cache.get(key)
    if kept is not None:
        try:
            return facts_from_json(kept)
        except _DAMAGED:
            pass
    from penstock.definitions.sql_holes import parse_with_holes

    facts = parse_with_holes(text)
    cache.put(key, _as_stored(to_json(facts)))
    return facts


def check_condition(text: str, cache: ParseCache) -> None:
    """Check that a text is one condition or value, as `expr` takes it; raises DefinitionError with the place in the text."""
    key = cache_key("condition", text)
    if cache.get(key) is not None:
        return
    from penstock.definitions.sql_parse import parse_condition

    parse_condition(text)
    cache.put(key, True)


def _as_stored(value: object) -> object:
    """The value as it will be read back, so that an unchanged cache compares equal."""
    return json.loads(json.dumps(value))
