"""The codes that the program can give, found in its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.docs.markdown import PACKAGE

_MAKERS = frozenset(
    {"Reason", "Problem", "Damage", "ProgressError", "Untraced", "_report", "_remark", "to_column_change"}
)
"""What takes a code of a plan as its first argument."""


def _trees() -> Iterator[ast.Module]:
    for file in sorted(PACKAGE.rglob("*.py")):
        yield ast.parse(file.read_text(encoding="utf-8"))


def plan_codes() -> set[str]:
    """Codes of reasons, problems and damage, given as literals."""
    found = set()
    for tree in _trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or _name(node.func) not in _MAKERS:
                continue
            given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "code")]
            found |= {item.value for item in given if isinstance(item, ast.Constant) and isinstance(item.value, str)}
    return found


def error_codes() -> set[str]:
    """Codes of error classes."""
    found = set()
    for tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                found |= {code for statement in node.body if (code := _code(statement))}
    return found


def change_flow_codes() -> set[str]:
    """What follows the dot in the codes of change flows, given as literals; one of two where a condition decides."""
    found = set()
    for tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name == "BadChangesError":
                calls = [
                    call for call in ast.walk(node) if isinstance(call, ast.Call) and _name(call.func) == "__init__"
                ]
            elif isinstance(node, ast.Call) and _name(node.func) == "ChangeFlowError":
                calls = [node]
            else:
                continue
            for call in calls:
                given = (
                    [call.args[0].body, call.args[0].orelse] if isinstance(call.args[0], ast.IfExp) else call.args[:1]
                )
                found |= {
                    item.value for item in given if isinstance(item, ast.Constant) and isinstance(item.value, str)
                }
    return found


def parameters_of(module: str, function: str) -> list[str]:
    """The names of a function's parameters, without importing its module."""
    tree = ast.parse((PACKAGE / module).read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    return [argument.arg for argument in (*found.args.args, *found.args.kwonlyargs)]


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _code(statement: ast.stmt) -> str | None:
    if not isinstance(statement, ast.Assign) or _name(statement.targets[0]) != "code":
        return None
    value = statement.value
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
