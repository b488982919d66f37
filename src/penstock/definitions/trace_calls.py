"""The syntax of calls, and of statements that change values in place; the parameters of functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from penstock.definitions.trace_rules import READING_WITHOUT_ARGUMENTS

_CHANGING_METHODS = frozenset({
    "append", "extend", "insert", "remove", "pop", "popitem", "clear", "update", "add", "discard", "sort", "reverse",
    "setdefault",
})  # fmt: skip


def parameters(function: FunctionType) -> tuple[str, ...]:
    """The names of a function's parameters, without those that collect the rest."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def default_of(function: FunctionType, name: str) -> tuple[Any, ...]:
    """The default of a parameter, as its only value; KeyError when it has none."""
    defaults: Mapping[str, Any] = function.__kwdefaults__ or {}
    if name in defaults:
        return (defaults[name],)
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    values = function.__defaults__ or ()
    return (dict(zip(positional[len(positional) - len(values) :], values, strict=True))[name],)


def walk_code(root: ast.AST, ignored: frozenset[int]) -> Iterator[ast.AST]:
    """The nodes of code, except for annotations and those that are ignored."""
    yield root
    for name, value in ast.iter_fields(root):
        if name in {"annotation", "returns"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and id(child) not in ignored:
                yield from walk_code(child, ignored)


def argument(call: ast.Call, index: int, keyword: str) -> ast.expr | None:
    if len(call.args) > index and not any(isinstance(item, ast.Starred) for item in call.args[: index + 1]):
        return call.args[index]
    return next((item.value for item in call.keywords if item.arg == keyword), None)


def has_starred(call: ast.Call) -> bool:
    """Whether it is not in the text what a call is given: `f(*names)`, `f(**options)`."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords)


def has_seed(call: ast.Call) -> bool:
    return len(call.args) >= 3 or any(keyword.arg in {"seed", "random_state"} for keyword in call.keywords)


def is_file_method(call: ast.Call) -> bool:
    """Whether the method that is called may be one of a path or a file, judged by its name."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name == "open" or (name in READING_WITHOUT_ARGUMENTS and not call.args and not call.keywords)


def changes_values(root: ast.AST) -> bool:
    """Whether the code changes lists or dicts in place, of which it may have several names."""
    return any(_changes_value(node) for node in ast.walk(root))


def changes_globals(tree: ast.Module) -> bool:
    """Whether a function of the file gives a name of the file another value, or changes its value in place."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(isinstance(node, ast.Global) for node in ast.walk(tree)) or any(map(_changes_outer, functions))


def _changes_outer(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    local = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    local |= {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    changed = (_changed(node) for node in ast.walk(function))
    return any(isinstance(node, ast.Name) and node.id not in local for node in changed)


def _changes_value(node: ast.AST) -> bool:
    return _changed(node) is not None


def _changed(node: ast.AST) -> ast.expr | None:
    """The expression whose value the node changes in place."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        return node.value
    method = node.func if isinstance(node, ast.Call) else None
    return method.value if isinstance(method, ast.Attribute) and method.attr in _CHANGING_METHODS else None
