"""Whether a Python definition can return rows at all, seen in its text."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import FunctionType
from typing import Any

from penstock.definitions.trace_locals import own_nodes
from penstock.definitions.trace_names import Names, is_own
from penstock.definitions.trace_sources import FunctionNode, Sources
from penstock.errors import DefinitionError, Location


def check_result(function: Callable[..., Any], sources: Sources, location: Location) -> None:
    """DefinitionError for a function that can only return None; a stub (`...`, `return None`, `raise`) is left alone."""
    source = sources.file_of(function.__code__.co_filename) if isinstance(function, FunctionType) else None
    if source is None or not isinstance(function, FunctionType):
        return
    node = source.find_function(function.__code__)
    if isinstance(node, ast.FunctionDef) and _returns_nothing(node) and has_only_own_decorators(function, node):
        raise DefinitionError(
            f"the function {function.__name__!r} returns nothing: it must return a DataFrame",
            hint="write `return` before the rows that it computes",
            location=location,
        )


def has_only_own_decorators(function: FunctionType, node: FunctionNode) -> bool:
    """Whether what the function returns is what its definition gives: another decorator may do anything with it."""
    names = Names(function, node, {}, {})
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    used = [names.try_object(each.func if isinstance(each, ast.Call) else each) for each in decorators]
    return all(map(is_own, used))


def _returns_nothing(node: ast.FunctionDef) -> bool:
    inside = list(own_nodes(node))
    gives = any(isinstance(each, ast.Return) and each.value is not None for each in inside)
    is_stub = all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body)
    raises = any(isinstance(each, ast.Raise | ast.Yield | ast.YieldFrom) for each in inside)
    return not (gives or is_stub or raises)
