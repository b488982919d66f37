"""How the text of one function calls what it holds: methods of objects, and functions that it keeps to call them later."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any

from penstock.definitions.trace_locals import other_names
from penstock.definitions.trace_names import Names
from penstock.definitions.trace_sources import FunctionNode
from penstock.definitions.trace_wrappers import is_followed


def called_methods(node: ast.Attribute, root: FunctionNode, names: Names) -> Iterator[functools.partial[Any]]:
    """The methods that a call of a member may mean, each as a call that gives it its object or class."""
    for each in () if _is_changed(node.value, root) else names.members(node):
        if isinstance(each, MethodType) and isinstance(each.__func__, FunctionType):
            yield functools.partial(each.__func__, each.__self__)


def is_renamed(node: ast.expr, root: FunctionNode, parents: Mapping[int, ast.AST], names: Names) -> bool:
    """`get = dp.var`: the calls of the other name are followed."""
    found = other_names(parents.get(id(node)), root)
    return bool(found) and all(names.try_object(each) is names.try_object(node) for each in found)


def is_only_kept(node: ast.expr, root: FunctionNode, parents: Mapping[int, ast.AST], names: Names) -> bool:
    """Whether nothing calls it here: the `f` of `@wraps(f)`, which takes its name, or of `get = partial(f, 1)`."""
    parent = parents.get(id(node))
    if not isinstance(parent, ast.Call) or node not in parent.args:
        return False
    keeper = names.try_object(parent.func)
    if keeper is functools.partial:
        found = other_names(parents.get(id(parent)), root)
        return bool(found) and all(is_followed(names.try_object(each)) for each in found)
    return keeper is functools.wraps


def _is_changed(node: ast.expr, root: ast.AST) -> bool:
    """Whether code gives an object that it holds other values than its class does: `job.table = "orders"`."""
    stores = (each for each in ast.walk(root) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store))
    return isinstance(node, ast.Name) and any(isinstance(s.value, ast.Name) and s.value.id == node.id for s in stores)
