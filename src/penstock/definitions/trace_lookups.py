"""What code asks for without naming it: docstrings, subclasses, the names of its own file."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from penstock import pipelines
from penstock.definitions.trace_names import canonical_name
from penstock.definitions.trace_values import UnstableValueError

DOCS, SUBCLASSES, OWN_FILE = "docstrings", "subclasses", "own file"
_BY_NAME = {"__doc__": DOCS, "__subclasses__": SUBCLASSES}
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def looked_up(node: ast.Name | ast.Attribute, parent: ast.AST | None, value: Any) -> str | None:
    """What the use of a name or member asks for, if it is one of these."""
    if isinstance(node, ast.Attribute) and node.attr in _BY_NAME:
        return None if _is_copied(node, parent) else _BY_NAME[node.attr]
    if value is inspect.getdoc:
        return DOCS
    is_vars = value is builtins.vars and isinstance(parent, ast.Call) and not parent.args
    return OWN_FILE if is_vars or value is builtins.globals or value is sys.modules else None


def looked_up_by_text(names: list[Any] | None) -> list[str]:
    """What `getattr(value, name)` asks for."""
    return [_BY_NAME[name] for name in names or [] if isinstance(name, str) and name in _BY_NAME]


def docstrings(root: ast.AST) -> list[str]:
    """The docstrings of a tree and of everything inside it."""
    found = (ast.get_docstring(each, clean=False) for each in ast.walk(root) if isinstance(each, _DOCUMENTED))
    return [text for text in found if text is not None]


def subclasses_of(kinds: list[type]) -> Iterator[type]:
    """Their direct subclasses; of several with the same name only the last, which is what the name means.

    A dataclass with slots is made twice, and the first one may still be there.
    """
    found: dict[tuple[str, str], type] = {}
    for kind in kinds:
        children: list[type] = kind.__subclasses__()
        found.update(((child.__module__, child.__qualname__), child) for child in children)
    made = {(kind.__module__, kind.__qualname__) for kind in kinds}
    yield from (kind for key, kind in found.items() if key not in made)


def values_of_file(names: dict[str, Any]) -> list[tuple[str, Any]]:
    """The plain values of a module; its functions and classes are in its text."""
    return [
        (name, value)
        for name, value in sorted(names.items())
        if not (name.startswith("__") or isinstance(value, ModuleType) or callable(value) or value is pipelines.spark)
    ]


def by_name(value: Any) -> Any:
    """Describe a function inside such a value; it is not followed, because its text is in the file or in an import."""
    name = canonical_name(value)
    if name is None:
        raise UnstableValueError(f"a value of type {type(value).__name__!r} that cannot be compared between runs")
    return ["name", name]


def _is_copied(node: ast.Attribute, parent: ast.AST | None) -> bool:
    """`wrapper.__doc__ = function.__doc__` reads it for people only."""
    if not isinstance(parent, ast.Assign) or parent.value is not node:
        return False
    return all(isinstance(target, ast.Attribute) and target.attr == "__doc__" for target in parent.targets)
