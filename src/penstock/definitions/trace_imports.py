"""Which imports of a file a definition can reach: those that only other functions of the file use do not concern it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOKUPS = frozenset({"globals", "locals", "vars", "eval", "exec", "getattr", "__import__"})
"""With one of these at the top of a file, a name may be used without being written."""


def split_imports(tree: ast.Module, taken: Collection[ast.AST]) -> tuple[list[ast.AST], list[ast.AST]]:
    """The statements of a file that may load what a definition uses, and the imports that only other functions use.

    `taken` has the functions and classes of the file that the definition uses.
    """
    others = [each for each in tree.body if isinstance(each, _FUNCTIONS) and not _has_any(each, taken)]
    used = _find_names(tree, others)
    elsewhere = {name.id for each in others for part in each.body for name in _names(part)}
    spared = [
        each
        for each in tree.body
        if isinstance(each, ast.Import | ast.ImportFrom)
        and (bound := _bound_names(each))
        and bound <= elsewhere
        and not bound & used
        and not _LOOKUPS & used
    ]
    apart = {id(each) for each in (*spared, *others)}
    return [each for each in tree.body if id(each) not in apart], list(spared)


def has_effects(tree: ast.Module) -> bool:
    """Whether loading a module does more than give names to functions, classes and values."""
    plain = (*_FUNCTIONS, ast.Import, ast.ImportFrom, ast.ClassDef)
    return not all(isinstance(each, plain) or _is_assignment(each) or _is_text(each) for each in tree.body)


def _find_names(tree: ast.Module, others: Collection[ast.AST]) -> set[str]:
    """The names that are used outside the bodies of the other functions; decorators and defaults are outside."""
    found: set[str] = set()
    for each in tree.body:
        if isinstance(each, _FUNCTIONS) and any(each is other for other in others):
            outside = [*each.decorator_list, *each.args.defaults, *filter(None, each.args.kw_defaults)]
            found |= {name.id for part in outside for name in _names(part)}
        else:
            found |= {name.id for name in _names(each)}
    return found


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Name))


def _bound_names(statement: ast.Import | ast.ImportFrom) -> set[str]:
    if any(alias.name == "*" for alias in statement.names):
        return set()
    is_from = isinstance(statement, ast.ImportFrom)
    return {alias.asname or (alias.name if is_from else alias.name.partition(".")[0]) for alias in statement.names}


def _has_any(function: ast.AST, taken: Collection[ast.AST]) -> bool:
    inside = {id(each) for each in ast.walk(function)}
    return any(id(each) in inside for each in taken)


def _is_assignment(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return bool(targets) and all(isinstance(target, ast.Name) for target in targets)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
