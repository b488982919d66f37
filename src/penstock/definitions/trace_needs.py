"""The SQL that a Python definition certainly runs, and what it needs of its inputs.

Only the plainest form counts: a function that does nothing but return the result of `spark.sql` with a literal, or of methods
called on it. Anything else may not run the query, or may catch its error.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from penstock import pipelines
from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_facts import ColumnNeed, ResultColumns
from penstock.definitions.sql_files import read_query
from penstock.definitions.sql_text import to_file_place
from penstock.definitions.trace_names import Names, is_own
from penstock.definitions.trace_sources import FunctionNode, Sources
from penstock.errors import DefinitionError, Location


@dataclass(frozen=True, slots=True)
class PythonQuery:
    """The query of a definition: what must exist so that it can run, with places in the user's file, and what it gives."""

    needs: tuple[tuple[ColumnNeed, Location], ...] = ()
    result: ResultColumns = field(default_factory=ResultColumns)
    """Open if something is done with the result of the query."""


def find_python_query(function: Callable[..., Any], sources: Sources, cache: ParseCache) -> PythonQuery:
    """What is known of the query that a definition certainly runs; nothing if there is none."""
    source = sources.file_of(function.__code__.co_filename) if isinstance(function, FunctionType) else None
    node = (
        source.find_function(function.__code__) if source is not None and isinstance(function, FunctionType) else None
    )
    if source is None or node is None or not isinstance(function, FunctionType):
        return PythonQuery()
    literal = _find_query(function, node)
    if literal is None:
        return PythonQuery()
    # What does not parse is the matter of tracing.
    with suppress(DefinitionError):
        facts = read_query(str(literal.value), cache)
        shown = source.shown
        places = (to_file_place(shown, literal, Location(shown, need.line, need.column)) for need in facts.needs)
        returned = _find_returned(node)
        is_plain = isinstance(returned, ast.Call) and literal in returned.args
        return PythonQuery(tuple(zip(facts.needs, places, strict=True)), facts.result if is_plain else ResultColumns())
    return PythonQuery()


def _find_query(function: FunctionType, node: FunctionNode) -> ast.Constant | None:
    returned = _find_returned(node)
    names = Names(function, node, {}, {})
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    used = [names.try_object(each.func if isinstance(each, ast.Call) else each) for each in decorators]
    if returned is None or not all(map(is_own, used)):
        return None
    call = _find_first_call(returned)
    if call is None or not isinstance(call.func, ast.Attribute) or call.func.attr != "sql" or call.keywords:
        return None
    is_session = names.try_object(call.func.value) is pipelines.spark
    given = call.args[0] if len(call.args) == 1 else None
    return given if is_session and isinstance(given, ast.Constant) and isinstance(given.value, str) else None


def _find_returned(node: FunctionNode) -> ast.expr | None:
    """What a function returns that has no other statement, except a text that describes it."""
    if isinstance(node, ast.Lambda):
        return node.body
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    rest = node.body[1:] if is_text else node.body
    is_plain = isinstance(node, ast.FunctionDef) and len(rest) == 1
    return rest[0].value if is_plain and isinstance(rest[0], ast.Return) else None


def _find_first_call(value: ast.expr) -> ast.Call | None:
    """The call that `f(...).g(...).h(...)` begins with."""
    call = None
    while isinstance(value, ast.Call):
        call = value
        inner = value.func
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        value = inner
    return call
